"""The weights of a parameter as plain numbers, any stretch of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint
from prune_gui.pruning.selection.keys import Bits, raw_bits
from prune_gui.pruning.selection.scores import wide_dtype

Values = NDArray[np.floating[Any]]
Reader = Callable[[int, int], Values]
"""From flat indices [start, stop) to the values there."""


def reader(checkpoint: Checkpoint, name: str) -> Reader:
    """Return what reads the flat (row-major) entries [start, stop) of a parameter.

    They come as float64 if the parameter is that, else as float32, which holds every narrower type
    exactly.
    """
    flat = checkpoint.view(name).detach().reshape(-1)

    def read(start: int, stop: int) -> Values:
        return _widened(flat[start:stop])

    return read


def together(checkpoint: Checkpoint, names: Iterable[str]) -> Values:
    """Return all entries of some parameters, one parameter after the other, as `reader` does."""
    return np.concatenate([_widened(part.detach()) for part in checkpoint.views(names)])


def bits_reader(checkpoint: Checkpoint, name: str) -> Callable[[int, int], Bits]:
    """Return what reads the flat entries [start, stop) of a parameter as raw bits."""
    flat = checkpoint.view(name).detach().reshape(-1)
    return lambda start, stop: raw_bits(flat[start:stop])


def of_bits(bits: Bits, dtype: torch.dtype) -> Values:
    """Return the numbers that raw bits stand for in a type of their width."""
    signed = np.uint8 if bits.itemsize == 1 else f"i{bits.itemsize}"
    return _widened(torch.from_numpy(bits.view(signed)).view(dtype))


def _widened(tensor: torch.Tensor) -> Values:
    values: Values = tensor.to(wide_dtype(tensor.dtype)).numpy()
    return values
