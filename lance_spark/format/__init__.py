"""Lance's format as pure decoders: manifests, transactions, schemas, row ids, and what changed between versions."""
