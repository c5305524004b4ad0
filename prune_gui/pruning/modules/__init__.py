"""A drop-in for `torch.nn.utils.prune`: pruning of live modules, with its names and meaning."""
