"""The view Groups: a bar per unit of a coupled group."""
