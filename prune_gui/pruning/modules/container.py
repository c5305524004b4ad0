"""Several methods on one parameter, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import overload

from torch import Tensor
from torch.nn.utils import prune as reference

from prune_gui.pruning.modules.base import BasePruningMethod, is_method


@reference.PruningContainer.register
class PruningContainer(BasePruningMethod):
    """The methods applied to one parameter so far, in order. The newest one computes the mask.

    Args:
        *args: methods of the same parameter, ours or torch's.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            if not self._pruning_methods:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method after the others.

        Raises:
            TypeError: it is not a pruning method.
            ValueError: it acts on a parameter of another name.
        """
        if not is_method(method):
            raise TypeError(f"{type(method)} is not a pruning method.")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"This container prunes '{self._tensor_name}'; a method that prunes "
                f"'{method._tensor_name}' cannot join it."
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    @overload
    def __getitem__(self, idx: int) -> BasePruningMethod: ...
    @overload
    def __getitem__(self, idx: slice) -> tuple[BasePruningMethod, ...]: ...
    def __getitem__(self, idx: int | slice) -> BasePruningMethod | tuple[BasePruningMethod, ...]:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return what `mask_on_top` does with the newest method; the earlier masks stand."""
        return mask_on_top(self._pruning_methods[-1], t, default_mask)


def mask_on_top(method: BasePruningMethod, t: Tensor, default_mask: Tensor) -> Tensor:
    """Run a method on what earlier ones left.

    Args:
        method: its `PRUNING_TYPE` says what it is shown.
        t: scores.
        default_mask: of the same shape, what the earlier methods left; it is not changed.

    Returns:
        In the dtype of `t`.

    Raises:
        AttributeError: a structured method does not say along which `dim`.
        IndexError: that is no dimension of `t`.
        ValueError: the method's `PRUNING_TYPE` is unknown, or its mask is of a wrong shape.
    """
    index = _shown(method, default_mask)
    shown = t[index]
    part = method.compute_mask(shown, default_mask=default_mask[index])
    if part.shape != shown.shape:
        raise ValueError(
            f"{type(method).__name__} was shown scores of shape {tuple(shown.shape)}, "
            f"but returned a mask of shape {tuple(part.shape)}."
        )
    if isinstance(index, tuple) and not any(isinstance(some, Tensor) for some in index):
        return part.to(t.dtype)  # it was shown all there is
    mask = default_mask.to(t.dtype, copy=True)
    mask[index] = part.to(t.dtype)
    return mask


def _shown(method: BasePruningMethod, mask: Tensor) -> Tensor | tuple[slice | Tensor, ...]:
    """Return the index of what a method may choose from, given the mask of the earlier ones."""
    if method.PRUNING_TYPE == "unstructured":
        return mask != 0
    index: list[slice | Tensor] = [slice(None)] * mask.dim()
    if method.PRUNING_TYPE == "structured":
        dim = _dimension(method, mask.dim())
        # Not `channel_norms`: a plug-in's process would wait a second for its compiled loops. torch
        # takes no other dimensions for all, so that a vector is given one; it adds up no float8.
        others = [other for other in range(mask.dim() + 1) if other != dim]
        summable = mask.bool() if mask.dtype.itemsize == 1 else mask
        there = summable.unsqueeze(-1).sum(others) != 0
        if not there.all():
            index[dim] = there
    elif method.PRUNING_TYPE != "global":
        raise ValueError(
            f"PRUNING_TYPE {method.PRUNING_TYPE!r} of {type(method).__name__} is unknown; "
            "use 'unstructured', 'structured' or 'global'."
        )
    return tuple(index)


def _dimension(method: BasePruningMethod, dims: int) -> int:
    """Return the dimension of a structured method, counted from the front."""
    dim = getattr(method, "dim", None)
    if dim is None:
        raise AttributeError(
            f"{type(method).__name__} is 'structured'; it must say along which `dim` it prunes."
        )
    if not -dims <= dim < dims:
        raise IndexError(f"dim={dim} is none of the {dims} dimensions of this tensor.")
    return int(dim) % dims
