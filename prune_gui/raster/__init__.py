"""A parameter of any size as a grid of cells: statistics of the elements in each; colours."""
