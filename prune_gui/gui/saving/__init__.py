"""Saving the pruned checkpoint: the dialog, its parts, and the job."""
