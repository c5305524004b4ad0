"""What the views show of a resolution: numbers and texts, computed without a window."""
