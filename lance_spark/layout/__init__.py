"""The declared layout of a table: partitions and clustering, the facts of its files, and what a filter rules out."""
