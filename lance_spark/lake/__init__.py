"""Publishing a branch of a whole catalog: many tables, all of them or none."""
