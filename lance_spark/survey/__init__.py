"""A dataset as a cleanup sees it: refs, manifests and clones, checked for contradictions."""
