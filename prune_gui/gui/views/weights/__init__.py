"""The view Weights: the numbers of the elements."""
