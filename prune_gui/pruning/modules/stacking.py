"""The mask of a method on top of the mask of earlier methods."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Method(Protocol):
    """What `mask_on_top` needs of a pruning method, of this package or of torch."""

    PRUNING_TYPE: str

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """See `BasePruningMethod.compute_mask`."""


def mask_on_top(method: Method, t: Tensor, default_mask: Tensor) -> Tensor:
    """Compute the mask of a method on top of the mask of earlier methods.

    Args:
        default_mask: of the same shape, the mask of the earlier methods; it is not changed.

    Returns:
        In the dtype of `t`.
    """
    index = _prunable_index(method, default_mask)
    prunable = t[index]
    prunable_mask = method.compute_mask(prunable, default_mask=default_mask[index])
    if prunable_mask.shape != prunable.shape:
        raise ValueError(
            f"{type(method).__name__} was shown scores of shape {tuple(prunable.shape)}, "
            f"but returned a mask of shape {tuple(prunable_mask.shape)}."
        )
    if isinstance(index, tuple) and not any(isinstance(item, Tensor) for item in index):
        return prunable_mask.to(t.dtype)  # the method got the whole tensor
    mask = default_mask.to(t.dtype, copy=True)
    mask[index] = prunable_mask.to(t.dtype)
    return mask


def _prunable_index(method: Method, mask: Tensor) -> Tensor | tuple[slice | Tensor, ...]:
    """Return an index that selects the elements a method gets, given the mask of earlier ones."""
    if method.PRUNING_TYPE == "unstructured":
        return mask != 0
    index: list[slice | Tensor] = [slice(None)] * mask.dim()
    if method.PRUNING_TYPE == "structured":
        dim = _dimension(method, mask.dim())
        # `channel_norms` is not used, since its kernels would delay a plug-in process by a second.
        # `sum([])` would reduce all dimensions, so that a vector gets a second one. torch cannot
        # sum float8.
        others = [other for other in range(mask.dim() + 1) if other != dim]
        summable = mask.bool() if mask.dtype.itemsize == 1 else mask
        has_remaining = summable.unsqueeze(-1).sum(others) != 0
        if not has_remaining.all():
            index[dim] = has_remaining
    elif method.PRUNING_TYPE != "global":
        raise ValueError(
            f"PRUNING_TYPE {method.PRUNING_TYPE!r} of {type(method).__name__} is unknown; "
            "use 'unstructured', 'structured' or 'global'."
        )
    return tuple(index)


def _dimension(method: Method, dims: int) -> int:
    """Return the dimension of a structured method, counted from the front."""
    dim = getattr(method, "dim", None)
    if dim is None:
        raise AttributeError(
            f"{type(method).__name__} is 'structured'; it must say along which `dim` it prunes."
        )
    if not -dims <= dim < dims:
        raise IndexError(f"dim={dim} is none of the {dims} dimensions of this tensor.")
    return int(dim) % dims
