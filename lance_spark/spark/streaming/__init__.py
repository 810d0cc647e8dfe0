"""Structured Streaming: the sink and the source."""
