"""Where work over many files runs: what an engine has to do, threads of this process that do it, and which to take."""
