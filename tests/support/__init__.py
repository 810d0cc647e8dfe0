"""What tests share: datasets, processes, models of histories, stores that fail. One module for each."""
