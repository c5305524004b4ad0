"""Atomic and verified writing, for every checkpoint format."""
