"""The view Layers: all parameters side by side."""
