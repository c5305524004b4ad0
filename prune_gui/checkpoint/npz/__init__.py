"""NumPy's `.npz` archives: reading, writing."""
