"""Methods that prune single elements."""

from __future__ import annotations

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
from prune_gui.pruning.modules.magnitudes import k_smallest
from prune_gui.pruning.modules.reparametrization import mask_product
from prune_gui.pruning.selection.scores import wide_dtype


@reference.Identity.register
class Identity(BasePruningMethod):
    """Prune nothing, but reparametrize the parameter with a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return `default_mask`."""
        return default_mask

    @classmethod
    def apply(cls, module: nn.Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name)


class _ElementPruning(BasePruningMethod):
    """Prunes a share or a number of the elements that it gets."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _units(self, t: Tensor) -> int:
        units = _compute_nparams_toprune(self.amount, t.numel())
        _validate_pruning_amount(units, t.numel())
        return units


@reference.RandomUnstructured.register
class RandomUnstructured(_ElementPruning):
    """Prune elements at random, each with the same chance.

    After `torch.manual_seed` it draws the same numbers as torch and prunes the same elements,
    except for half-precision weights, for which it draws float32 numbers, since their own dtype has
    too few values.

    Args:
        amount: a share in [0, 1], or a whole number of elements.
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return `default_mask` without `amount` elements.

        Raises:
            ValueError: there are fewer elements than `amount`.
        """
        units = self._units(t)
        if units == 0:
            return default_mask.clone()
        drawn = torch.rand(t.shape, dtype=wide_dtype(t.dtype), device=t.device)
        return mask_product(
            default_mask, k_smallest(1 - drawn, units).logical_not_()
        )  # the largest are pruned

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: nn.Module, name: str, amount: Amount
    ) -> BasePruningMethod:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount)


@reference.L1Unstructured.register
class L1Unstructured(_ElementPruning):
    """Prune the elements of smallest absolute value.

    Of equal values, the lowest flat index is pruned first, on all devices; non-finite values rank
    as the largest. torch leaves the choice among equal values open, and cannot rank 8-bit floats.

    Args:
        amount: a share in [0, 1], or a whole number of elements.
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return `default_mask` without the `amount` elements of smallest absolute score.

        Raises:
            ValueError: there are fewer elements than `amount`.
        """
        return mask_product(default_mask, k_smallest(t, self._units(t)).logical_not_())

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: nn.Module,
        name: str,
        amount: Amount,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        """See `BasePruningMethod.apply`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)
