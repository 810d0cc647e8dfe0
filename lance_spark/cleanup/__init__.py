"""What may be deleted, and why: pure decisions."""
