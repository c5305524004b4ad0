"""The stack of steps, and its history."""
