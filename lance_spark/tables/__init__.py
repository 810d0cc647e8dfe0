"""One file per verb: options, resolve, plan, execute."""
