"""Views that show the elements of one parameter and zoom like a map: Mask and Weights."""
