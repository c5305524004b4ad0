"""Checkpoints in several files: the index, reading, writing."""
