"""All access to stores: datasets through pylance, single files through fsspec; no other code imports fsspec."""
