"""The dock that evaluates the file, the stack and other recipes with the user's own measure."""
