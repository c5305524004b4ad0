"""The view Mask: which elements are pruned."""
