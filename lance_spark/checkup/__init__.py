"""Whether a dataset is sound: what its manifests name against what is there, and findings as values. Pure."""
