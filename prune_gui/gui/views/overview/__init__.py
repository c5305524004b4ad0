"""The view Overview: a thumbnail of every parameter, by block and role."""
