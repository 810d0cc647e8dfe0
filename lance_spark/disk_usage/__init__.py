"""What each ref costs: whose versions need which files. Pure."""
