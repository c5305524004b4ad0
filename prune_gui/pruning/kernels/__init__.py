"""Compiled loops over the elements of a tensor. They release the GIL: threads run in parallel."""
