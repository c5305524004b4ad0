"""Reports on pruned checkpoints: an HTML page and a CSV table to read, print and send."""
