"""What a dataset says about itself, as tables: branches, tags, versions, fragments, files, indexes. Pure."""
