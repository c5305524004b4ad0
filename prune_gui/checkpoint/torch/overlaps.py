"""Which tensors of a torch file share memory without being the same view of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from prune_gui.checkpoint.torch.claims import extent

MAX_COMPARISONS: Final = 1 << 19
"""Between views that lie interleaved; what is left after them is taken to overlap."""
MAX_WORK: Final = 10_000
"""Of one comparison; see `numpy.shares_memory`."""


class Span(NamedTuple):
    """The bytes from the first to the last entry of a tensor."""

    start: int
    stop: int
    name: str


def overlapping(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return for each tensor that shares entries with another one the name of that one.

    Args:
        tensors: strided, with values, and no two of them the same view.
    """
    found: dict[str, str] = {}
    left = MAX_COMPARISONS
    for cluster in _clusters(sorted(map(_span, tensors, tensors.values()))):
        for i, one in enumerate(cluster):
            left -= i
            if left <= 0:
                found[one.name] = cluster[0].name
                continue
            for other in cluster[:i]:
                known = one.name in found and other.name in found
                if other.stop <= one.start or known:
                    continue
                if _share(tensors[one.name], tensors[other.name]):
                    found.setdefault(one.name, other.name)
                    found.setdefault(other.name, one.name)
    return found


def _span(name: str, tensor: torch.Tensor) -> Span:
    start = tensor.data_ptr()
    return Span(start, start + extent(tensor.shape, tensor.stride()) * tensor.itemsize, name)


def _clusters(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield the spans, in order of their starts, that reach into each other."""
    cluster: list[Span] = []
    stop = 0
    for span in spans:
        if cluster and span.start >= stop:
            yield cluster
            cluster = []
        cluster.append(span)
        stop = max(stop, span.stop)
    yield cluster


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether two tensors whose spans overlap have an entry in common."""
    if one.is_contiguous() and other.is_contiguous():
        return True
    try:
        # numpy's stub knows two special values only.
        return np.shares_memory(_array(one), _array(other), MAX_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _Memory:
    """What numpy needs to know of a tensor; of any dtype, as the entries are not looked at."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(step * tensor.itemsize for step in tensor.stride()),
            "typestr": f"|V{tensor.itemsize}",
        }


def _array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(_Memory(tensor))
