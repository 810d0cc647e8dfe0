"""Search: what is asked for, which tasks answer it, how their answers become one; near duplicates. Pure."""
