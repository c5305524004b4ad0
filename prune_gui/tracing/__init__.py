"""Which channels of which tensors go together, from a run of the network (may import torch)."""
