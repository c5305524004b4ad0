"""Large pictures of a parameter: what lies in each cell of a grid."""
