"""The view Compare: a parameter in two states, or in two checkpoints."""
