"""Adding, changing, filling and dropping columns, each as one version; incremental fills as one version per group."""
