"""Methods that prune whole channels along one dimension."""

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
from prune_gui.pruning.modules.base import BasePruningMethod
from prune_gui.pruning.modules.magnitudes import k_smallest, magnitudes
from prune_gui.pruning.modules.reparametrization import on_top
from prune_gui.pruning.norms.channels import channel_norms
from prune_gui.pruning.norms.orders import Order
from prune_gui.pruning.selection.scores import wide_dtype


class _Channels(BasePruningMethod):
    """Prunes a share, or a number, of the channels it is shown: the lowest-ranked ones."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    @abstractmethod
    def _ranks(self, t: Tensor) -> Tensor:
        """Return one number >= 0 per channel of `t` along `dim`; the least go first, NaN last."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return `default_mask`, in the dtype of `t`, without `amount` of the channels.

        Raises:
            ValueError: `t` has less than two dimensions, or fewer channels than `amount`.
            IndexError: it has no dimension `dim`.
        """
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        channels = t.shape[self.dim]
        units = _compute_nparams_toprune(self.amount, channels)
        _validate_pruning_amount(units, channels)
        if units == 0:
            return default_mask.to(t.dtype, copy=True)
        along_dim = [1] * t.dim()
        along_dim[self.dim] = channels
        kept = ~k_smallest(self._ranks(t), units).view(along_dim)
        return on_top(default_mask, kept).to(t.dtype)


@reference.RandomStructured.register
class RandomStructured(_Channels):
    """Prune channels at random, each with the same chance.

    After `torch.manual_seed` it draws as torch does, so it prunes what torch would prune, except
    that it never prunes more than `amount` where draws are equal.

    Args:
        amount: a share in [0, 1], or a whole number of channels.
        dim: along which the channels lie.
    """

    def _ranks(self, t: Tensor) -> Tensor:
        drawn = torch.rand(t.shape[self.dim], dtype=wide_dtype(torch.get_default_dtype()))
        return drawn.to(t.device)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: nn.Module, name: str, amount: Amount, dim: int = -1
    ) -> BasePruningMethod:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount, dim=dim)


@reference.LnStructured.register
class LnStructured(_Channels):
    """Prune the channels of least norm, taken over all other dimensions.

    Of equal ones the lowest index goes first, which torch leaves open; a norm of NaN or infinity
    ranks as the largest. A channel that is pruned in part counts as a whole one. Weights of 16 or 8
    bits are widened to float32, which torch does not do, so that norms neither overflow nor
    coincide.

    Args:
        amount: a share in [0, 1], or a whole number of channels.
        n: order of the norm: a number, inf, -inf, "fro" (2, with any number of dimensions, unlike
            torch) or "nuc" (tensors of three dimensions; torch's error elsewhere does not say so).
        dim: along which the channels lie.
    """

    def __init__(self, amount: Amount, n: Order, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _ranks(self, t: Tensor) -> Tensor:
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
        """See `BasePruningMethod.apply`."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


def _validate_structured_pruning(t: Tensor) -> None:
    """Check that a tensor has channels, also on top of an earlier step.

    There torch takes a vector for one channel along dimension 0, and prunes all of it.

    Raises:
        ValueError: it has less than two dimensions.
    """
    if t.dim() < 2:
        raise ValueError(
            f"A tensor of shape {tuple(t.shape)} has no channels; structured pruning needs two "
            "dimensions or more."
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Check that a tensor has a dimension `dim`.

    Raises:
        IndexError: it has not.
    """
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"dim={dim} is none of the {t.dim()} dimensions of {tuple(t.shape)}.")
