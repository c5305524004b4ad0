"""The scores that a step ranks, read span by span, and their standard deviation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks, spread
from prune_gui.pruning.arrays import Values
from prune_gui.pruning.kernels import group_loops as group_kernels


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype to compute in for weights of `dtype`: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def has_values(t: torch.Tensor) -> bool:
    """Return whether a tensor holds values, unlike those on `meta` and fake ones."""
    return not (t.is_meta or isinstance(t, FakeTensor))


def is_on_cpu(device: torch.device) -> bool:
    """Return whether loops of the CPU may read a tensor on a device; others stay on theirs."""
    return device.type == "cpu"


class Scores(Protocol):
    """One real number per element of a parameter, in row-major order."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the parameter."""

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of what `part` returns."""

    @property
    def nbytes(self) -> int:
        """Number of bytes to read for all elements."""

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the scores of the indices [start, stop): contiguous, one dimension, on the CPU."""


@runtime_checkable
class BlockScores(Scores, Protocol):
    """Scores that are computed in blocks with one call of a compiled loop each.

    Other calls, as of torch, release the GIL, and many threads then wait for it between blocks.
    """

    def blocks(self, start: int, stop: int, elements: int) -> Iterator[Values]:
        """Yield the scores of [start, stop), `elements` at a time; the next overwrite them."""


@dataclass(frozen=True)
class TensorScores:
    """The elements of a tensor, of any strides and on the CPU, as scores."""

    read: Callable[[], torch.Tensor]  # called for each span, so it should load nothing twice
    shape: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorScores:
        """Return the elements of a tensor in memory."""
        detached = tensor.detach()
        return cls(lambda: detached, tuple(tensor.shape), tensor.dtype)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def part(self, start: int, stop: int) -> torch.Tensor:
        tensor = self.read().detach()
        if tensor.is_contiguous() or tensor.dim() == 0:
            return tensor.reshape(-1)[start:stop]
        per_row = math.prod(tensor.shape[1:])
        first, last = start // per_row, -(-stop // per_row)
        rows = tensor[first:last].reshape(-1)
        return rows[start - first * per_row : stop - first * per_row]


class Store(Protocol):
    """A mapping from keys to tensors, such as an open checkpoint."""

    def view_key(self, key: str) -> torch.Tensor:
        """Return the tensor of a key."""

    def view_keys(self, keys: Sequence[str]) -> list[torch.Tensor]:
        """Return the flat values of the tensors of keys, in order; adjacent ones may be joined."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Returns a tensor of a store when called; equal if the store and the key are."""

    store: Store
    key: str

    def __call__(self) -> torch.Tensor:
        return self.store.view_key(self.key)


@dataclass(frozen=True, eq=False)
class JoinedScores:
    """The concatenated scores of parameters; those of one store are read in one call."""

    members: tuple[Scores, ...]
    size: int
    dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self.members)

    def part(self, start: int, stop: int) -> torch.Tensor:
        stored = [
            one.read
            for one in self.members
            if type(one) is TensorScores and type(one.read) is StoredTensor
        ]
        if len(stored) == len(self.members) and len({id(one.store) for one in stored}) == 1:
            parts = stored[0].store.view_keys([one.key for one in stored])
        else:
            parts = [one.part(0, math.prod(one.shape)) for one in self.members]
        parts = [part.detach().to(self.dtype) for part in parts]
        return (parts[0] if len(parts) == 1 else torch.cat(parts))[start:stop]


@dataclass(frozen=True)
class WeightScores:
    """Scores that are computed from weights, in float32 or wider."""

    weights: Scores

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    @property
    def dtype(self) -> torch.dtype:
        return wide_dtype(self.weights.dtype)

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes


@dataclass(frozen=True)
class ScaledColumns(WeightScores):
    """Absolute weights times one number per input column, as Wanda ranks them.

    |W_ij| * c_j (Sun et al., "A Simple and Effective Pruning Approach for Large Language Models",
    2023, where c_j is the norm of the input activations). `factors` are c, of shape (columns,), and
    `dim` is the dimension of the columns.
    """

    factors: Scores
    dim: int = 1

    def part(self, start: int, stop: int) -> torch.Tensor:
        columns, inner = self.shape[self.dim], math.prod(self.shape[self.dim + 1 :])
        column = torch.arange(start, stop) // inner % columns
        factors = self.factors.part(0, columns).to(self.dtype)
        return self.weights.part(start, stop).to(self.dtype).abs() * factors[column]


@dataclass(frozen=True)
class WeightDelta(WeightScores):
    """The weights minus those of another checkpoint."""

    origin: Scores

    @property
    def dtype(self) -> torch.dtype:
        return torch.promote_types(wide_dtype(self.weights.dtype), wide_dtype(self.origin.dtype))

    @property
    def nbytes(self) -> int:
        return self.weights.nbytes + self.origin.nbytes

    def part(self, start: int, stop: int) -> torch.Tensor:
        weights, origin = self.weights.part(start, stop), self.origin.part(start, stop)
        return weights.to(self.dtype) - origin.to(self.dtype)


def standard_deviation(scores: Scores, monitor: Monitor) -> float:
    """Return the standard deviation of all finite scores, over N - 1; NaN if N < 2.

    Chunks are combined in order, so that the result does not depend on the number of threads (Chan,
    Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
    1979).
    """
    n, mean, squares = 0, 0.0, 0.0
    moments = spread(partial(_moments, scores), chunks(math.prod(scores.shape)), monitor)
    for chunk_n, chunk_mean, chunk_squares in moments:
        if chunk_n:
            delta = chunk_mean - mean
            squares += chunk_squares + delta * delta * (n * chunk_n / (n + chunk_n))
            mean += delta * (chunk_n / (n + chunk_n))
            n += chunk_n
    return math.sqrt(squares / (n - 1)) if n > 1 else math.nan


def _moments(scores: Scores, span: tuple[int, int], monitor: Monitor) -> tuple[int, float, float]:
    chunk = scores.part(*span).to(torch.float64).numpy()
    monitor.advance(scores.nbytes * chunk.size // math.prod(scores.shape))
    moments: tuple[int, float, float] = group_kernels.moments(chunk)
    return moments
