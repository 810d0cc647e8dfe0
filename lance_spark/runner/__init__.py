"""Where work over many files runs: what an engine has to do, and threads of this process that do it."""
