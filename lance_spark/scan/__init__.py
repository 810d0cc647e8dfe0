"""Planning reads. Pure."""
