"""What happened to a table: versions as entries of a log, the graph of branches, differences of two versions. Pure."""
