"""What a Lance manifest says: its head, and every file it names. Pure."""
