"""Planning writes. Pure."""
