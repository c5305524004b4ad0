"""The tree of modules and parameters."""
