"""Work with a dataset in another place: clone, fetch, pull, push."""
