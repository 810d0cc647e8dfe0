"""One engine for merge, cherry-pick, revert, fetch, pull and push: plan, copy, commit."""
