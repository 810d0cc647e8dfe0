"""Changes of rows on Spark: frames of actions, and the engine that commits them. Works on Spark Connect."""
