"""The weights of a parameter as plain numbers, any stretch of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.checkpoint import Checkpoint

Values = NDArray[np.floating[Any]]
Reader = Callable[[int, int], Values]
"""From flat indices [start, stop) to the values there."""


def reader(checkpoint: Checkpoint, name: str) -> Reader:
    """Return what reads the flat (row-major) entries [start, stop) of a parameter.

    They come as float64 if the parameter is that, else as float32, which holds every narrower type
    exactly.
    """
    flat = checkpoint.view(name).detach().reshape(-1)
    wide = torch.float64 if flat.dtype == torch.float64 else torch.float32

    def read(start: int, stop: int) -> Values:
        values: Values = flat[start:stop].to(wide).numpy()
        return values

    return read
