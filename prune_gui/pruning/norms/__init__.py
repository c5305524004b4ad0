"""Norms of channels and of blocks, in one pass over a tensor and without a copy of it."""
