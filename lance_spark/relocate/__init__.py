"""After a dataset was moved: which base paths lead to an old place, and what repairs them. Pure."""
