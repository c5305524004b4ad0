"""Finding tensors of a torch file that share memory without being the same view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import torch

from prune_gui.checkpoint.torch.claims import extent

MAX_COMPARISONS: Final = 1 << 19
"""The limit for pairs of views whose spans overlap; beyond it, views are assumed to overlap."""
MAX_EXACT_WORK: Final = 10_000
"""The limit for one comparison; see `max_work` of `numpy.shares_memory`."""


class HasSpan(Protocol):
    """Something from `start` up to, and without, `stop`."""

    @property
    def start(self) -> int:
        """The start."""

    @property
    def stop(self) -> int:
        """The end."""


Spanned = TypeVar("Spanned", bound=HasSpan)


class Span(NamedTuple):
    """The memory addresses from the first to the last element of a tensor."""

    start: int
    stop: int
    name: str


def overlapping(tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return, for each tensor that shares elements with another one, the name of the other."""
    partners: dict[str, str] = {}
    comparisons_left = MAX_COMPARISONS
    for cluster in clusters(sorted(map(_span, tensors, tensors.values()))):
        for i, one in enumerate(cluster):
            comparisons_left -= i
            if comparisons_left <= 0:
                partners[one.name] = cluster[0].name
                continue
            for other in cluster[:i]:
                both_found = one.name in partners and other.name in partners
                if other.stop <= one.start or both_found:
                    continue
                if _share_elements(tensors[one.name], tensors[other.name]):
                    partners.setdefault(one.name, other.name)
                    partners.setdefault(other.name, one.name)
    return partners


def _span(name: str, tensor: torch.Tensor) -> Span:
    start = tensor.data_ptr()
    return Span(start, start + extent(tensor.shape, tensor.stride()) * tensor.itemsize, name)


def clusters(spans: Iterable[Spanned]) -> Iterator[list[Spanned]]:
    """Yield groups of overlapping spans; `spans` is sorted by start."""
    cluster: list[Spanned] = []
    stop = 0
    for span in spans:
        if cluster and span.start >= stop:
            yield cluster
            cluster = []
        cluster.append(span)
        stop = max(stop, span.stop)
    if cluster:
        yield cluster


def _share_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors whose spans overlap have an element in common."""
    if one.is_contiguous() and other.is_contiguous():
        return True
    try:
        # numpy's stub allows only two special values.
        return np.shares_memory(_as_array(one), _as_array(other), MAX_EXACT_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _MemoryLayout:
    """The memory layout of a tensor of any dtype for numpy, which does not read the elements."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(step * tensor.itemsize for step in tensor.stride()),
            "typestr": f"|V{tensor.itemsize}",
        }


def _as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(_MemoryLayout(tensor))
