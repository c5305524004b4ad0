"""A custom pruning method: see docs/how-to/write-a-method.md.

It is an ordinary method of `torch.nn.utils.prune`; nothing in it knows of Prune GUI.
"""

import torch
from torch.nn.utils import prune


class NearestMean(prune.BasePruningMethod):
    """Prune the weights nearest to the mean of the remaining weights.

    If weights are not centred on zero, small weights are not the typical ones.

    Args:
        amount: A share between 0.0 and 1.0, or a whole number of weights.
    """

    PRUNING_TYPE = "unstructured"  # receives only the remaining weights; or "structured", "global"

    def __init__(self, amount: int | float = 0.5) -> None:
        self.amount = amount

    def compute_mask(self, t: torch.Tensor, default_mask: torch.Tensor) -> torch.Tensor:
        """Return a copy of `default_mask`, 0 for the k weights nearest to the mean."""
        k = self.amount if isinstance(self.amount, int) else round(self.amount * t.numel())
        if k > t.numel():
            raise ValueError(f"cannot prune {k} weights: only {t.numel()} remain")
        nearest = (t - t.mean()).abs().flatten().argsort(stable=True)[:k]
        mask = default_mask.flatten().clone()
        mask[nearest] = 0
        return mask.view_as(t)
