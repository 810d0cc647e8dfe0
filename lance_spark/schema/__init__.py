"""Arrow types: which fit, how they are brought together, how wide they are. Pure."""
