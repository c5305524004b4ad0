"""The view Norms: a bar per channel."""
