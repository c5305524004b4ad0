"""Checkpoints at a URL: their bytes are fetched when they are needed, and kept in a cache."""
