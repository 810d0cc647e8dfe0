"""Looking after many tables: what is to be done, in which order, what is worth most, and how it is reported. Pure."""
