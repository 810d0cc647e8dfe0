"""Names, options, locations and records as plain values that all other rooms share. Pure."""
