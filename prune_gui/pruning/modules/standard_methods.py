"""The methods of torch for live modules, which prune elements or whole channels."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui.monitor import Monitor
from prune_gui.pruning.amount import (
    Amount,
    _compute_nparams_toprune,
    _validate_pruning_amount,
    _validate_pruning_amount_init,
)
from prune_gui.pruning.modules.masking import is_binary, is_plain, keep, mask_like
from prune_gui.pruning.modules.pruning_method import BasePruningMethod
from prune_gui.pruning.modules.reparametrization import PrunedTensor
from prune_gui.pruning.norms.unit_norms import Order, channel_norms
from prune_gui.pruning.selection.batched import find_cuts_batched
from prune_gui.pruning.selection.device_select import kept_on_device
from prune_gui.pruning.selection.keys import (
    DeviceKeys,
    Ranking,
    RemainingMask,
    ScoreKeys,
    ranking_dtype,
)
from prune_gui.pruning.selection.radix_select import mark_whole
from prune_gui.pruning.selection.scores import TensorScores, has_values, is_on_cpu, wide_dtype


@reference.Identity.register
class Identity(BasePruningMethod):
    """Prune nothing, but reparametrize the parameter with a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: nn.Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name)


class _AmountPruning(BasePruningMethod):
    def __init__(self, amount: Amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def units(self, remaining: int) -> int:
        units = _compute_nparams_toprune(self.amount, remaining)
        _validate_pruning_amount(units, remaining)
        return units


class ElementPruning(_AmountPruning):
    """Prunes a share or a number of the elements that it gets: those of smallest absolute score."""

    PRUNING_TYPE = "unstructured"
    LARGEST_FIRST: ClassVar[bool] = False

    @abstractmethod
    def element_scores(
        self, t: Tensor, dtype: torch.dtype, remaining: Tensor | None = None
    ) -> Tensor:
        """Return a score per element; the smallest absolute values are pruned first.

        With `LARGEST_FIRST`, scores are in [0, 1], and the largest are pruned first. `t` is
        compared with other tensors in `dtype`. Scores are not used where nothing is `remaining`.
        """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if not has_values(t):
            self.units(t.numel())
            return default_mask.clone()
        [kept] = self.kept_elements([t], [None])
        return _product(default_mask, kept)

    def mask_for(self, tensor: PrunedTensor, values: Tensor) -> Tensor:
        if not (ranks_elements(self) and is_plain(values)):
            return super().mask_for(tensor, values)
        dtype = torch.bool if tensor.orig.is_complex() else tensor.orig.dtype
        [kept] = self.kept_elements([values], [tensor.remaining()], dtype)
        return kept if kept.dtype == tensor.orig.dtype else mask_like(tensor.orig, kept)

    def kept_elements(
        self,
        values: Sequence[Tensor],
        remaining: Sequence[Tensor | None],
        mask_dtype: torch.dtype = torch.bool,
    ) -> Iterator[Tensor]:
        """Yield a mask per tensor, from one search for the cut through all of them.

        Of equal scores, those of earlier tensors are pruned first, then those of lower flat index.
        Nothing is concatenated, and the scores of a tensor are freed before its mask is yielded.
        A mask is boolean; of `mask_dtype` if tensors are on a device, which then copies nothing.
        """
        shapes, is_on_device = [t.shape for t in values], not is_on_cpu(values[0].device)
        values = [magnitudes(t) for t in values]
        pairs = list(zip(values, remaining, strict=True))
        if not is_on_device:
            counts = [t.numel() if own is None else int(own.count_nonzero()) for t, own in pairs]
            units = self.units(sum(counts))
            if units == 0:
                for shape, own in zip(shapes, remaining, strict=True):
                    yield torch.ones(shape, dtype=torch.bool) if own is None else own
                return
        dtype = ranking_dtype({t.dtype for t in values})
        scores = [self.element_scores(t, dtype, own).contiguous() for t, own in pairs]
        del values, pairs
        dtype = ranking_dtype({own.dtype for own in scores})
        if is_on_device:
            every = deque(
                DeviceKeys.of(own.to(dtype), mask, largest_first=self.LARGEST_FIRST)
                for own, mask in zip(scores, remaining, strict=True)
            )
            del scores
            yield from kept_on_device(every, self.units, mask_dtype)
            return
        if self.LARGEST_FIRST:
            for own in scores:
                own.neg_().add_(1)
        rankings = deque(
            Ranking(ScoreKeys(TensorScores.of(own), dtype), _remaining_mask(mask))
            for own, mask in zip(scores, remaining, strict=True)
        )
        del scores
        cuts = find_cuts_batched(rankings, units, Monitor())
        for shape, cut, own in zip(shapes, cuts, remaining, strict=True):
            pruned = mark_whole(rankings.popleft().keys, cut)
            kept = torch.from_numpy(pruned).logical_not_().view(shape)
            yield kept if own is None else kept.logical_and_(own)


@reference.RandomUnstructured.register
class RandomUnstructured(ElementPruning):
    """Prune elements at random, each with the same chance.

    After `torch.manual_seed` it draws the same numbers as torch and prunes the same elements,
    except for half-precision weights, for which it draws float32 numbers, since their own dtype has
    too few values. `amount` is a share in [0, 1], or a whole number of elements.
    """

    LARGEST_FIRST = True

    def element_scores(
        self, t: Tensor, dtype: torch.dtype, remaining: Tensor | None = None
    ) -> Tensor:
        """Return a random number per remaining element."""
        shape = t.shape if remaining is None else int(remaining.count_nonzero())
        drawn = torch.rand(shape, dtype=wide_dtype(dtype), device=t.device)
        if remaining is None:
            return drawn
        return drawn.new_zeros(t.shape).masked_scatter_(remaining.bool(), drawn)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: nn.Module, name: str, amount: Amount
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount)


@reference.L1Unstructured.register
class L1Unstructured(ElementPruning):
    """Prune the elements of smallest absolute value.

    Of equal values, the lowest flat index is pruned first, on all devices; non-finite values rank
    as the largest. torch leaves the choice among equal values open, and cannot rank 8-bit floats.
    `amount` is a share in [0, 1], or a whole number of elements.
    """

    def element_scores(
        self, t: Tensor, dtype: torch.dtype, remaining: Tensor | None = None
    ) -> Tensor:
        return t

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: nn.Module, name: str, amount: Amount, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def ranks_elements(method: BasePruningMethod) -> TypeGuard[ElementPruning]:
    """Return whether the mask of a method follows from `element_scores` and `units` alone."""
    own = getattr(method.compute_mask, "__func__", None)
    return own is ElementPruning.compute_mask


@reference.CustomFromMask.register
class CustomFromMask(BasePruningMethod):
    """Prune where a custom mask is 0. The new mask is the product of the old and the custom mask.

    Args:
        mask: of the parameter's shape, any dtype; only 0 and 1, while torch accepts any values. It
            is copied as boolean, so that a slice of a larger mask does not keep that in memory, as
            a slice of the mask of a global step does in torch.

    Raises:
        TypeError: `mask` is not a tensor.
        ValueError: `mask` holds values other than 0 and 1.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        if not isinstance(mask, Tensor):
            raise TypeError(f"The mask is a {type(mask).__name__}; it must be a torch.Tensor.")
        if not is_binary(mask):
            raise ValueError(
                "The mask holds values other than 0 and 1. Make it boolean first, for example "
                "with `mask != 0`."
            )
        self.mask = mask != 0

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return `default_mask` times the custom mask, in the dtype of `default_mask`."""
        return _product(default_mask, self._mask_like(default_mask))

    def mask_for(self, tensor: PrunedTensor, values: Tensor) -> Tensor:
        return tensor.mask_without(self._mask_like(values))

    def _mask_like(self, t: Tensor) -> Tensor:
        if self.mask.shape != t.shape:
            raise AssertionError(
                f"The mask has shape {tuple(self.mask.shape)}; the parameter has {tuple(t.shape)}."
            )
        if has_values(self.mask) and not has_values(t):
            raise ValueError(
                f"The mask has values, but the parameter on {t.device} has none. Load its weights "
                "first."
            )
        return self.mask.to(t.device)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: nn.Module, name: str, mask: Tensor
    ) -> BasePruningMethod:
        return super().apply(module, name, mask=mask)


def magnitudes(t: Tensor) -> Tensor:
    """Return floating point numbers whose absolute values rank like those of `t`, with signs."""
    t = t.detach()
    if t.is_complex():
        return t.abs()
    return t if t.is_floating_point() else t.double()


def _product(mask: Tensor, kept: Tensor) -> Tensor:
    """Return the product of a mask and `kept`, in the dtype of the mask; `kept` may broadcast."""
    return keep(mask.detach(), mask_like(mask, kept))


def _remaining_mask(remaining: Tensor | None) -> RemainingMask | None:
    if remaining is None:
        return None
    flat = remaining.view(-1).numpy()
    return lambda start, stop: flat[start:stop]


class _ChannelPruning(_AmountPruning):
    """Prunes a share or a number of the channels that it gets: those of lowest rank."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    @abstractmethod
    def _channel_scores(self, t: Tensor) -> Tensor:
        """Return a number >= 0 per channel along `dim`; the smallest are pruned first, NaN last."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _product(default_mask, self._kept_channels(t)).to(t.dtype)

    def mask_for(self, tensor: PrunedTensor, values: Tensor) -> Tensor:
        if type(self).compute_mask is not _ChannelPruning.compute_mask or not self._gets_all(
            tensor
        ):
            return super().mask_for(tensor, values)
        return tensor.mask_without(self._kept_channels(tensor.scores(values)))

    def _gets_all(self, tensor: PrunedTensor) -> bool:
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
        units = self.units(channels)
        kept = torch.ones(channels, dtype=torch.bool, device=t.device)
        if units > 0:
            ranked = self._channel_scores(t).sort(stable=True).indices
            kept.index_fill_(0, ranked[:units], False)
        along_dim = [1] * t.dim()
        along_dim[self.dim] = channels
        return kept.view(along_dim)


@reference.RandomStructured.register
class RandomStructured(_ChannelPruning):
    """Prune channels along `dim` at random, each with the same chance.

    After `torch.manual_seed` it draws the same numbers as torch and prunes the same channels,
    except that it never prunes more than `amount` (a share in [0, 1], or a whole number) if draws
    are equal.
    """

    def _channel_scores(self, t: Tensor) -> Tensor:
        drawn = torch.rand(t.shape[self.dim], dtype=wide_dtype(torch.get_default_dtype()))
        return drawn.to(t.device, non_blocking=True)

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
