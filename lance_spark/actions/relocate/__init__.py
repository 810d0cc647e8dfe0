"""After a dataset was moved or copied: checks base paths, and lets branches read from where it is now."""
