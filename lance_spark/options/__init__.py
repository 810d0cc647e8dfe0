"""What was typed, turned into what was meant. Pure."""
