"""Differences between two masks, and between two checkpoints."""
