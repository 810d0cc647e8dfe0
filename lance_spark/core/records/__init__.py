"""Records beside a dataset, as values: what they are called, how they are stored and read."""
