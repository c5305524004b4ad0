"""Reading the weights of a parameter as float32 or float64, in spans of flat indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import torch

from prune_gui.checkpoint import Checkpoint
from prune_gui.pruning.arrays import Bits, Flags, Values
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.pruning.selection.scores import wide_dtype
from prune_gui.recipe import Resolution

_IEEE_DTYPES: Final = frozenset({torch.bfloat16, torch.float16, torch.float32, torch.float64})
"""Dtypes in which a number is zero if all its bits but the sign are."""

Reader = Callable[[int, int], Values]
"""From start and stop to the values of the flat indices [start, stop)."""


def reader(checkpoint: Checkpoint, name: str) -> Reader:
    """Return a reader of the flat (row-major) indices [start, stop) of a parameter.

    The values are float64 if the parameter is; otherwise float32, which represents every narrower
    dtype exactly. Stored codes are multiplied by their scales.
    """
    if checkpoint.tensors[name].scale is None:
        return reader_of(checkpoint.view(name))
    return lambda start, stop: _widened(checkpoint.values_span(name, start, stop))


def shown(resolution: Resolution, name: str) -> Reader:
    """Return a reader of the values that views show: `Resolution.values`, scaled as in `reader`."""
    if resolution.is_corrected(name):
        return reader_of(resolution.values(name))
    return reader(resolution.checkpoint, name)


def reader_of(tensor: torch.Tensor) -> Reader:
    """Return a reader of the flat indices [start, stop) of a tensor; see `reader`."""
    flat = tensor.detach().reshape(-1)
    return lambda start, stop: _widened(flat[start:stop])


def zeros_reader(checkpoint: Checkpoint, name: str) -> Callable[[int, int], Flags | None]:
    """Return a reader of where the flat indices [start, stop) are zero; None if none of them is.

    Most parameters have no zeros. Their bits are compared where they are, without a copy or torch,
    whose threads would wait for work between spans.
    """
    is_scaled = checkpoint.tensors[name].scale is not None
    tensor = None if is_scaled else checkpoint.read(name)
    if tensor is None or tensor.dtype not in _IEEE_DTYPES:
        read = reader(checkpoint, name) if tensor is None else reader_of(tensor)
        return lambda start, stop: read(start, stop) == 0
    bits = raw_bits(tensor.detach().reshape(-1))
    signed = bits.view(f"i{bits.itemsize}")
    minus_zero = np.iinfo(signed.dtype).min

    def zeros(start: int, stop: int) -> Flags | None:
        part = signed[start:stop]
        if np.count_nonzero(part) == part.size and part.min(initial=0) > minus_zero:
            return None
        zero: Flags = bits[start:stop] << bits.dtype.type(1) == 0
        return zero

    return zeros


def span_of(resolution: Resolution, name: str, start: int, stop: int) -> torch.Tensor:
    """Return [start, stop) of the flat values as `shown`; usually without fetching the others."""
    if resolution.is_corrected(name):
        return resolution.values(name).reshape(-1)[start:stop]
    return resolution.checkpoint.values_span(name, start, stop)


def together(checkpoint: Checkpoint, names: Iterable[str]) -> Values:
    """Return the values of several parameters, concatenated, with the dtypes of `reader`."""
    names = list(names)
    if any(checkpoint.tensors[name].scale for name in names):
        views: Iterable[torch.Tensor] = (checkpoint.read_values(name).reshape(-1) for name in names)
    else:
        views = checkpoint.views(names)
    return np.concatenate([_widened(view.detach()) for view in views])


def bits_reader_of(tensor: torch.Tensor) -> Callable[[int, int], Bits]:
    """Return a reader of the flat indices [start, stop) of a tensor as raw bits."""
    flat = tensor.detach().reshape(-1)
    return lambda start, stop: raw_bits(flat[start:stop])


def of_bits(bits: Bits, dtype: torch.dtype) -> Values:
    """Return the numbers that raw bits represent in a dtype of the same width."""
    signed = np.uint8 if bits.itemsize == 1 else f"i{bits.itemsize}"
    return _widened(torch.from_numpy(bits.view(signed)).view(dtype))


def _widened(tensor: torch.Tensor) -> Values:
    values: Values = tensor.to(wide_dtype(tensor.dtype)).numpy()
    return values
