"""One-shot pruning of a network block by block: masks and kept weights from calibration data."""
