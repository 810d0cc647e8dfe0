"""Reading a table at one pinned version, and writing one as a job that ends in one commit."""
