"""The window that shows the film of a run of training."""
