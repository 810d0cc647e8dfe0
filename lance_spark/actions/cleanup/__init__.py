"""Cleanup: survey, mark, list, decide; then check again and delete. The engine it runs on is handed in."""
