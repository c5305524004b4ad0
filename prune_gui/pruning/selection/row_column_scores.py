"""Scores that compare each weight with its row and its column.

A row is an output channel with all its weights, and a column an input channel with all its weights
(of a convolution, at all positions of the kernel). The sums of all rows and columns take one pass,
in which the tensor is seen as a matrix: its *lines* have the channels of the first of the two
dimensions, and their elements those of the second. After it the score of any element follows from
its weight and two factors, so that no score is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.parallel import chunks, spread
from prune_gui.pruning.arrays import Ints, Numbers, Values
from prune_gui.pruning.kernels import row_column as kernels
from prune_gui.pruning.kernels.norm_loops import Elements
from prune_gui.pruning.layouts import USUAL, WeightLayout
from prune_gui.pruning.lazy import Lazy
from prune_gui.pruning.selection.keys import Ranking, ScoreKeys, raw_bits
from prune_gui.pruning.selection.lamp_cuts import largest_exponent
from prune_gui.pruning.selection.scores import Scores, WeightScores, wide_dtype

if TYPE_CHECKING:
    from prune_gui.pruning.selection.histogram_cache import HistogramCache
    from prune_gui.pruning.selection.keys import RemainingMask

BLOCK_ELEMENTS: Final = 1 << 20
"""The sums of columns are added up in blocks of this many elements, rounded down to whole rows."""


@dataclass(frozen=True, slots=True)
class Formula:
    """How a score follows from an absolute weight and from the sizes of its row and its column.

    The size of a row is the sum of its absolute weights, or their root mean square. Its factor is
    ``size ** -row_power``, and that of a column ``size ** -column_power``. The weight is multiplied
    by each, or by the sum of both (`add`).
    """

    mean_square: bool
    row_power: float
    column_power: float
    add: bool


RIA: Final = Formula(mean_square=False, row_power=1.0, column_power=1.0, add=True)
"""|w| / (sum of its row) + |w| / (sum of its column): the relative importance of Zhang et al.,
"Plug-and-Play: An Efficient Post-training Pruning Method for Large Language Models", 2024, without
the activations.
"""


def balanced(row_power: float = 0.5, column_power: float = 0.5) -> Formula:
    """Return |w| / (row^row_power * column^column_power), with root mean squares.

    Of powers 0.5, it is one step of the scaling that gives all rows and columns equal sums of
    squares (Sinkhorn and Knopp, "Concerning nonnegative matrices and doubly stochastic matrices",
    1967).
    """
    return Formula(True, row_power, column_power, add=False)


@dataclass(frozen=True)
class RowColumnScores(WeightScores):
    """Absolute weights, divided by the sizes of their row and their column.

    Computed in float64 for float64 weights, else in float32, multiplied in the order |w| * row
    factor * column factor, or |w| * (row factor + column factor). Factors are computed in float64,
    rounded to that dtype, and limited to its normal numbers. The rows and columns consist of their
    finite remaining elements; if these are all zero, the factor is 1, so that the scores are 0.
    Results are the same on any number of threads; with powers other than 0, 0.5 and 1 they
    depend on how the C library rounds ``pow``.
    """

    remaining_mask: RemainingMask | None
    formula: Formula
    layout: WeightLayout = USUAL
    cache: HistogramCache | None = field(default=None, compare=False, repr=False)
    _factors: Lazy[tuple[Values, Values]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_factors", Lazy(self._cached_factors))

    def __getstate__(self) -> dict[str, object]:
        """Return what is pickled: with the factors, which take a pass over the weights."""
        self._factors()
        return dict(vars(self))

    def part(self, start: int, stop: int) -> torch.Tensor:
        for scores in self.blocks(start, stop, stop - start):
            return torch.from_numpy(scores)
        return torch.empty(0, dtype=self.dtype)

    def blocks(self, start: int, stop: int, elements: int) -> Iterator[Values]:
        if start == stop:
            return
        weights, (lines, across) = _elements(self.weights, start, stop), self._factors()
        add, are_rows = self.formula.add, self._lines_are_rows
        scores = np.empty(min(elements, stop - start), across.dtype)
        for first, last in chunks(stop - start, elements):
            line, column = divmod(start + first, across.size)
            own = scores[: last - first]
            kernels.score(weights[first:last], lines[line:], across, column, add, are_rows, own)
            yield own

    def factors_at(self, flat: int) -> tuple[float, float]:
        lines, across = self._factors()
        line, at = divmod(flat, across.size)
        factors = float(lines[line]), float(across[at])
        return factors if self._lines_are_rows else factors[::-1]

    @property
    def _lines_are_rows(self) -> bool:
        return self.layout.output_dim < self.layout.input_dim

    @property
    def _dims(self) -> tuple[int, int]:
        """The dimensions with the channels of the lines, and of their elements."""
        first, second = sorted(self.layout[:2])
        return first, second

    def _cached_factors(self) -> tuple[Values, Values]:
        """Return the factor of each line, and of each element of a line, in `dtype`."""
        cache = self.cache.norms if self.cache else None
        key = self.weights, self.remaining_mask, self.formula, self.layout[:2]
        factors = cache.get(key) if cache else None
        if factors is None:
            factors = np.concatenate(list(self._compute_factors()))
            if cache:
                cache.put(key, factors)
        limits = torch.finfo(self.dtype)
        dtype = np.dtype(f"f{self.dtype.itemsize}")
        # neither 0 nor infinite, and no sum of two is
        rounded = factors.clip(limits.tiny, limits.max / 2).astype(dtype)
        first, second = self._dims
        lines, across = np.split(rounded, [self.shape[first]])
        _, _, inner = self.layout.around(first, self.shape[:second])
        before = math.prod(self.shape[:first])
        return np.tile(np.repeat(lines, inner), before), np.repeat(
            across, math.prod(self.shape[second + 1 :])
        )

    def _compute_factors(self) -> Iterator[Numbers]:
        """Yield the factor of each channel of the lines, and of each of their elements."""
        exponent = largest_exponent(Ranking(ScoreKeys.of(self.weights), self.remaining_mask))
        powers = self.formula.row_power, self.formula.column_power
        powers = powers if self._lines_are_rows else powers[::-1]
        for (sums, counts), power in zip(self._sums(2.0**-exponent), powers, strict=True):
            sizes = np.sqrt(sums / np.maximum(counts, 1)) if self.formula.mean_square else sums
            with np.errstate(over="ignore"):  # near the smallest and the largest float64
                sizes = np.where(sizes > 0, np.ldexp(sizes, exponent), 1.0)
                # The square root is rounded in the same way everywhere, which pow is not.
                yield 1.0 / (np.sqrt(sizes) if power == 0.5 else sizes**power)

    def _sums(self, scale: float) -> list[tuple[Numbers, Ints]]:
        """Return sums and numbers of elements: of each channel of the lines, and of the others."""
        first, second = self._dims
        rows, columns = math.prod(self.shape[:second]), math.prod(self.shape[second:])
        height = max(1, BLOCK_ELEMENTS // max(columns, 1))
        row_sums, row_counts = np.zeros(rows), np.zeros(rows, np.int64)
        sums, counts = np.zeros(columns), np.zeros(columns, np.int64)
        blocks = [
            slice(row, min(row + height, rows)) for row in range(0, rows if columns else 0, height)
        ]
        block_sums = partial(
            _block_sums, self.weights, self.remaining_mask, self.formula.mean_square, scale, columns
        )
        for block, own in zip(blocks, spread(block_sums, blocks, Monitor()), strict=True):
            row_sums[block], row_counts[block] = own.row_sums, own.row_counts
            sums += own.sums
            counts += own.counts
        lines, across = (self.shape[:second], first), (self.shape[second:], 0)
        return [
            (_of_channels(row_sums, *lines), _of_channels(row_counts, *lines)),
            (_of_channels(sums, *across), _of_channels(counts, *across)),
        ]


def _of_channels(sums: NDArray[Any], shape: tuple[int, ...], dim: int) -> NDArray[Any]:
    """Return sums over all dimensions but one, added in order."""
    if len(sums) == shape[dim]:
        return sums
    by_channel = np.moveaxis(sums.reshape(shape), dim, 0).reshape(shape[dim], -1)
    total: NDArray[Any] = by_channel.cumsum(1)[:, -1]  # cumsum adds in order, sum in pairs
    return total


def _elements(weights: Scores, start: int, stop: int) -> Elements:
    """Return weights as numbers of float32 or wider, or as the bits of bfloat16."""
    values = weights.part(start, stop)
    if values.dtype is torch.bfloat16:
        return raw_bits(values)
    elements: Values = values.to(wide_dtype(values.dtype)).numpy()
    return elements


class BlockSums(NamedTuple):
    """Sums and numbers of elements in some rows; `counts` is their height if all elements count."""

    row_sums: Numbers
    row_counts: Ints
    sums: Numbers
    counts: Ints | int


def _block_sums(
    weights: Scores,
    remaining_mask: RemainingMask | None,
    square: bool,
    scale: float,
    columns: int,
    block: slice,
    _monitor: Monitor,
) -> BlockSums:
    check_cancelled()
    height = block.stop - block.start
    row_sums, row_counts = np.zeros(height), np.zeros(height, np.int64)
    start, stop = block.start * columns, block.stop * columns
    rows = _elements(weights, start, stop).reshape(-1, columns)
    sums = np.zeros(columns)
    if remaining_mask is None:
        kernels.add_powers(rows, square, scale, row_sums, sums)
        if np.isfinite(row_sums).all():
            row_counts[:] = columns
            return BlockSums(row_sums, row_counts, sums, height)
        row_sums[:] = sums[:] = 0.0
    mask = None if remaining_mask is None else remaining_mask(start, stop)
    counts = np.zeros(columns, np.int64)
    kernels.add_remaining_powers(rows, mask, square, scale, row_sums, sums, row_counts, counts)
    return BlockSums(row_sums, row_counts, sums, counts)
