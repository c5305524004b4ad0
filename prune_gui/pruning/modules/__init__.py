"""A drop-in replacement of `torch.nn.utils.prune`: pruning of live modules."""
