"""The jobs that spark-submit runs. The files in ``jobs/`` hold their help, and call them."""
