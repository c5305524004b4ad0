"""Views of a parameter of any size: statistics of the elements in each cell of a grid."""
