"""Methods of live modules that prune whole channels along one dimension."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.pruning.amount import (
    Amount,
    _compute_nparams_toprune,
    _validate_pruning_amount,
    _validate_pruning_amount_init,
)
from prune_gui.pruning.modules.element_methods import magnitudes
from prune_gui.pruning.modules.masking import mask_product
from prune_gui.pruning.modules.pruning_method import BasePruningMethod
from prune_gui.pruning.modules.reparametrization import PrunedTensor
from prune_gui.pruning.norms.orders import Order
from prune_gui.pruning.norms.unit_norms import channel_norms
from prune_gui.pruning.selection.scores import wide_dtype


class _ChannelPruning(BasePruningMethod):
    """Prunes a share or a number of the channels that it gets: those of lowest rank."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    @abstractmethod
    def _channel_scores(self, t: Tensor) -> Tensor:
        """Return a number >= 0 per channel along `dim`; the smallest are pruned first, NaN last."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return mask_product(default_mask, self._kept_channels(t)).to(t.dtype)

    def mask_for(self, tensor: PrunedTensor, values: Tensor) -> Tensor:
        if type(self).compute_mask is not _ChannelPruning.compute_mask or not self._gets_all(
            tensor
        ):
            return super().mask_for(tensor, values)
        return tensor.mask_without(self._kept_channels(tensor.scores(values)))

    def _gets_all(self, tensor: PrunedTensor) -> bool:
        """Return whether every channel has a remaining element."""
        if tensor.hook is None:
            return True
        mask = magnitudes(tensor.stored_mask())
        has_channels = mask.dim() > 1 and -mask.dim() <= self.dim < mask.dim()
        return has_channels and bool(channel_norms(mask, 2, self.dim).all())

    def _kept_channels(self, t: Tensor) -> Tensor:
        """Return a boolean number per channel, False where it is pruned, to be broadcast to `t`."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        channels = t.shape[self.dim]
        units = _compute_nparams_toprune(self.amount, channels)
        _validate_pruning_amount(units, channels)
        kept = torch.ones(channels, dtype=torch.bool, device=t.device)
        if units > 0:
            ranked = self._channel_scores(t).sort(stable=True).indices
            kept[ranked[:units]] = False
        along_dim = [1] * t.dim()
        along_dim[self.dim] = channels
        return kept.view(along_dim)


@reference.RandomStructured.register
class RandomStructured(_ChannelPruning):
    """Prune channels at random, each with the same chance.

    After `torch.manual_seed` it draws the same numbers as torch and prunes the same channels,
    except that it never prunes more than `amount` if draws are equal.

    Args:
        amount: a share in [0, 1], or a whole number of channels.
        dim: the dimension that indexes the channels.
    """

    def _channel_scores(self, t: Tensor) -> Tensor:
        drawn = torch.rand(t.shape[self.dim], dtype=wide_dtype(torch.get_default_dtype()))
        return drawn.to(t.device)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: nn.Module, name: str, amount: Amount, dim: int = -1
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, dim=dim)


@reference.LnStructured.register
class LnStructured(_ChannelPruning):
    """Prune the channels of smallest norm, taken over all other dimensions.

    Of equal norms, the lowest index is pruned first, which torch leaves open; a non-finite norm
    ranks as the largest. A partly pruned channel counts as one channel. 16-bit and 8-bit weights
    are converted to float32, unlike in torch, so that norms neither overflow nor coincide.

    Args:
        amount: a share in [0, 1], or a whole number of channels.
        n: order of the norm: a number, inf, -inf, "fro" (2, with any number of dimensions, unlike
            torch) or "nuc" (only tensors of three dimensions).
        dim: the dimension that indexes the channels.
    """

    def __init__(self, amount: Amount, n: Order, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _channel_scores(self, t: Tensor) -> Tensor:
        return channel_norms(magnitudes(t), self.n, self.dim)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: nn.Module,
        name: str,
        amount: Amount,
        n: Order,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


def _validate_structured_pruning(t: Tensor) -> None:
    """Check that a tensor has two dimensions, even if it is already pruned.

    torch then treats a vector as one channel, and prunes all of it.
    """
    if t.dim() < 2:
        raise ValueError(
            f"A tensor of shape {tuple(t.shape)} has no channels; structured pruning needs two "
            "dimensions or more."
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"dim={dim} is none of the {t.dim()} dimensions of {tuple(t.shape)}.")
