"""Where the numbers that a step ranks come from: any stretch of them, never a whole copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which to reckon about weights of `dtype`: never less than float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


class Scores(Protocol):
    """One real number per entry of a parameter, in row-major order."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the parameter."""

    @property
    def dtype(self) -> torch.dtype:
        """Of what `part` returns."""

    @property
    def nbytes(self) -> int:
        """How much there is to read."""

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the flat entries [start, stop): one dimension, contiguous, on the CPU."""


@dataclass(frozen=True)
class TensorScores:
    """The entries of a tensor.

    Attributes:
        read: gives the tensor (any strides, on the CPU); called for each stretch, so it should not
            load anything twice.
        shape: of the tensor.
        dtype: of the tensor.
    """

    read: Callable[[], torch.Tensor]
    shape: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorScores:
        """Return the entries of a tensor that is at hand."""
        detached = tensor.detach()
        return cls(lambda: detached, tuple(tensor.shape), tensor.dtype)

    @property
    def nbytes(self) -> int:
        """How much there is to read."""
        return math.prod(self.shape) * self.dtype.itemsize

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the flat entries [start, stop); of a strided tensor their rows are copied."""
        tensor = self.read().detach()
        if tensor.is_contiguous() or tensor.dim() == 0:
            return tensor.reshape(-1)[start:stop]
        per_row = math.prod(tensor.shape[1:])
        first, last = start // per_row, -(-stop // per_row)
        rows = tensor[first:last].reshape(-1)
        return rows[start - first * per_row : stop - first * per_row]


class Store(Protocol):
    """Holds tensors under keys; an open checkpoint is one."""

    def view_key(self, key: str) -> torch.Tensor:
        """Return a tensor."""

    def view_keys(self, keys: Sequence[str]) -> list[torch.Tensor]:
        """Return the flat values of tensors, in order; several may come as one."""


@dataclass(frozen=True, slots=True)
class View:
    """Gives a tensor of a store; equal to whatever gives the same one."""

    store: Store
    key: str

    def __call__(self) -> torch.Tensor:
        """Return the tensor."""
        return self.store.view_key(self.key)


def flat_together(every: Sequence[Scores]) -> list[torch.Tensor]:
    """Return all entries of some parameters, in order; views of one store are asked for at once."""
    views = [one.read for one in every if type(one) is TensorScores and type(one.read) is View]
    if len(views) == len(every) and len({id(view.store) for view in views}) == 1:
        return [part.detach() for part in views[0].store.view_keys([view.key for view in views])]
    return [one.part(0, math.prod(one.shape)) for one in every]


@dataclass(frozen=True)
class ScaledColumns:
    """Absolute weights times one number per input column, as Wanda ranks them.

    |W_ij| * c_j, in float32 or better (Sun et al., "A Simple and Effective Pruning Approach for
    Large Language Models", 2023, where c_j is the norm of the input activations).

    Attributes:
        weights: of shape (rows, columns, ...).
        factors: c, of shape (columns,).
    """

    weights: Scores
    factors: Scores

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the parameter."""
        return self.weights.shape

    @property
    def dtype(self) -> torch.dtype:
        """Never less than float32."""
        return wide_dtype(self.weights.dtype)

    @property
    def nbytes(self) -> int:
        """How much there is to read."""
        return self.weights.nbytes

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the flat entries [start, stop)."""
        columns, inner = self.shape[1], math.prod(self.shape[2:])
        column = torch.arange(start, stop) // inner % columns
        factors = self.factors.part(0, columns).to(self.dtype)
        return self.weights.part(start, stop).to(self.dtype).abs() * factors[column]


@dataclass(frozen=True)
class WeightDelta:
    """How far the weights moved from those of another checkpoint, in float32 or better.

    Attributes:
        weights: as they are.
        origin: as they were; of the same shape.
    """

    weights: Scores
    origin: Scores

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the parameter."""
        return self.weights.shape

    @property
    def dtype(self) -> torch.dtype:
        """Never less than float32."""
        return torch.promote_types(wide_dtype(self.weights.dtype), wide_dtype(self.origin.dtype))

    @property
    def nbytes(self) -> int:
        """How much there is to read."""
        return self.weights.nbytes + self.origin.nbytes

    def part(self, start: int, stop: int) -> torch.Tensor:
        """Return the flat entries [start, stop)."""
        now, then = self.weights.part(start, stop), self.origin.part(start, stop)
        return now.to(self.dtype) - then.to(self.dtype)
