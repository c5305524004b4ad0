"""Compiled loops that count elements. They release the GIL, so threads run in parallel.

``codes`` is a span of `Resolution.pruned_by`; ``slots`` maps a code to a slot, a row of the counts
(see `CodeIndex`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from prune_gui.pruning.kernels.loop import compiled
from prune_gui.recipe.recipe import KEPT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from prune_gui.pruning.arrays import Bits, Codes, Flags, Ints, Key, Numbers, Values
    from prune_gui.recipe.stack import AppliedStep

    Float = np.floating[Any]
    Uints = NDArray[np.uint32]


BLOCK_ELEMENTS, CHECKED_ELEMENTS = 2048, 64
"""Bins are guessed per block, which fits the L1 cache, and checked per smaller group."""


class CodeIndex(NamedTuple):
    """The codes that occur in one parameter, ascending, and the slot in which each is counted.

    There is a code per slot, and in `lookup`, uint8 (256,), a slot per code.
    """

    codes: tuple[int, ...]
    lookup: Codes

    @classmethod
    def of(cls, applied_steps: Iterable[AppliedStep]) -> CodeIndex:
        steps = sorted({applied.step for applied in applied_steps})
        lookup = np.zeros(256, np.uint8)
        lookup[steps] = np.arange(1, len(steps) + 1)
        return cls((KEPT, *steps), lookup)


@compiled
def find_bins(values: Values, edges: Numbers, bin_of: Uints) -> None:
    """Set ``bin_of`` to the bin of each value; index ``bins`` is NaN, ``bins + 1`` infinity."""
    bins = edges.size - 1
    per_unit = bins / (edges[bins] - edges[0])
    for i in range(values.size):
        value = np.float64(values[i])
        if not np.isfinite(value):
            bin_of[i] = bins if np.isnan(value) else bins + 1
            continue
        guess = (value - edges[0]) * per_unit
        bin_ = int(min(guess, bins - 1.0)) if guess > 0 else 0
        while bin_ > 0 and value < edges[bin_]:
            bin_ -= 1
        while bin_ < bins - 1 and value >= edges[bin_ + 1]:
            bin_ += 1
        bin_of[i] = bin_


@compiled
def _guess_bins(
    values: Values, low: Float, per_unit: Float, doubt: Float, bins: Float, bin_of: Uints
) -> None:
    """Set ``bin_of`` to the bin of each value, or to ``bins`` where rounding may change it."""
    for i in range(values.size):
        position = (values[i] - low) * per_unit
        guess = np.uint32(min(max(position, bins - bins), bins))
        within = position - type(position)(guess)
        bin_of[i] = guess if (doubt < within) & (within + doubt < bins / bins) else np.uint32(bins)


@compiled
def count_bins(values: Values, codes: Codes, slots: Codes, edges: Numbers, counts: Ints) -> None:
    """Add values to the counts of bins of equal width; the last includes its upper edge."""
    as_value = values.dtype.type
    bins, low = edges.size - 1, edges[0]
    width = edges[bins] - low
    # A generous bound of the rounding error of a position, or of an edge, in bins.
    rounding = 2.0**-48 if values.itemsize == 8 else 2.0**-22
    doubt = rounding * bins * (1 + max(abs(low), abs(edges[bins])) / width)
    bin_of = np.empty(BLOCK_ELEMENTS, np.uint32)
    for start in range(0, values.size, BLOCK_ELEMENTS):
        block = values[start : start + BLOCK_ELEMENTS]
        _guess_bins(
            block, as_value(low), as_value(bins / width), as_value(doubt), as_value(bins), bin_of
        )
        for first in range(0, block.size, CHECKED_ELEMENTS):
            checked, unsure = bin_of[first : min(first + CHECKED_ELEMENTS, block.size)], 0
            for i in range(checked.size):
                unsure += checked[i] == bins
            if unsure > 0:
                find_bins(block[first : first + CHECKED_ELEMENTS], edges, checked)
        block_codes = codes[start : start + BLOCK_ELEMENTS]
        for i in range(block.size):
            counts[slots[block_codes[i]], bin_of[i]] += 1


@compiled
def count_known_bins(bits: Bits, codes: Codes, slots: Codes, bins: Uints, counts: Ints) -> None:
    """Do the same as `count_bins`; ``bins`` is the bin of the value of every bit pattern."""
    for i in range(bits.size):
        counts[slots[codes[i]], bins[bits[i]]] += 1


@compiled
def widen_range(values: Values, limits: Numbers) -> None:
    """Widen ``limits``, a (minimum, maximum) pair, to include the finite values."""
    low, high = limits[0], limits[1]
    for i in range(values.size):
        value = np.float64(values[i])
        if np.isfinite(value):
            low = min(low, value)
            high = max(high, value)
    limits[0], limits[1] = low, high


@compiled
def count_channel_steps(
    codes: Codes,
    values: Values,
    slots: Codes,
    inner: int,
    offset: int,
    counts: Ints,
    nonzero: Flags,
) -> None:
    """Count the elements of each channel by the step that pruned them, (slots, channels).

    The elements of a channel come in runs of ``inner``; after the last channel follows the first.
    """
    channel, channels = np.uint64(0), np.uint64(nonzero.size)
    for i in range(codes.size):
        slot = slots[codes[i]]
        counts[slot, channel] += 1
        nonzero[channel] |= (slot == 0) & (values[i] != 0)
        offset += 1
        if offset == inner:
            offset = 0
            channel += np.uint64(1)
            if channel == channels:
                channel = np.uint64(0)


@compiled
def add_squares(
    values: Values,
    kept: Flags | None,
    inner: int,
    offset: int,
    sums: Numbers,
    non_finite: Ints,
    nonzero: Flags,
) -> None:
    """Sum the squares of all values and of the kept ones, and find the nonzero channels.

    ``nonzero`` (2, channels) is set where a channel has a nonzero element, and where it keeps one.
    The loop multiplies by the bytes of ``kept``, because a branch on them is often mispredicted.
    """
    kept_bytes = None if kept is None else kept.view(np.uint8)
    channel, start = 0, 0
    while start < values.size:
        stop = min(start + inner - offset, values.size)
        offset = 0
        sum_all, sum_kept = 0.0, 0.0
        any_nonzero, any_kept = False, False
        for i in range(start, stop):
            value = np.float64(values[i])
            is_kept = np.uint8(1) if kept_bytes is None else kept_bytes[i]
            any_nonzero |= value != 0
            any_kept |= (is_kept != 0) & (value != 0)
            if np.isfinite(value):
                sum_all += value * value
                sum_kept += value * is_kept * value  # the square may be infinite
            else:
                non_finite[0 if np.isnan(value) else 1] += 1
        sums[0] += sum_all
        sums[1] += sum_kept
        nonzero[0, channel] |= any_nonzero
        nonzero[1, channel] |= any_kept
        channel += 1
        start = stop


@compiled
def add_squares_of_each(
    values: Values,
    kept: Flags | None,
    bounds: Ints,
    inner: Ints,
    sums: Numbers,
    non_finite: Ints,
    dead: Ints,
) -> None:
    """Do the same as `add_squares` for many parameters, and count the dead channels of each.

    The outputs are (parameters, 2). ``dead`` counts the channels that keep only zeros, and those
    that have only zeros in the file.
    """
    for i in range(inner.size):
        start, stop = bounds[i], bounds[i + 1]
        nonzero = np.zeros((2, (stop - start) // inner[i]), np.bool_)
        part = values[start:stop]
        if kept is None:
            add_squares(part, None, inner[i], 0, sums[i], non_finite[i], nonzero)
        else:
            add_squares(part, kept[start:stop], inner[i], 0, sums[i], non_finite[i], nonzero)
        for channel in range(nonzero.shape[1]):
            dead[i, 0] += not nonzero[1, channel]
            dead[i, 1] += not nonzero[0, channel]


@compiled
def add_losses(before: Values, after: Values, sums: Numbers, zeros: Ints) -> None:
    """Add up the energy, what of it is lost, and the squared change; and count the zeros.

    The zeros are those before, after, and both times.
    """
    energies = np.zeros(2)  # of what stays, and of what becomes zero
    change, zeros_before, zeros_after, zeros_both = 0.0, 0, 0, 0
    for i in range(before.size):
        x, y = np.float64(before[i]), np.float64(after[i])
        zeros_before += x == 0
        zeros_after += y == 0
        zeros_both += (x == 0) & (y == 0)
        if np.isfinite(x):
            energies[np.uint64(y == 0)] += x * x
            if np.isfinite(y):
                change += (y - x) * (y - x)
    sums += np.array([energies.sum(), energies[1], change])
    zeros += np.array([zeros_before, zeros_after, zeros_both])


@compiled
def count_between(
    bits: Bits, remaining_mask: Flags | None, min_bits: Key, threshold: Key, last_tie: int
) -> int:
    """Return the number of remaining elements whose bits are in [``min_bits``, ``threshold``].

    The limits include the sign bit. The threshold counts only up to the index ``last_tie``.
    """
    count, ties = 0, min(max(last_tie + 1, 0), bits.size)
    for i in range(ties):
        between = (bits[i] >= min_bits) & (bits[i] <= threshold)
        count += between & (remaining_mask is None or remaining_mask[i])
    rest = bits[ties:]  # a loop that does not begin at 0 is not vectorized
    remaining_rest = None if remaining_mask is None else remaining_mask[ties:]
    for i in range(rest.size):
        between = (rest[i] >= min_bits) & (rest[i] < threshold)
        count += between & (remaining_rest is None or remaining_rest[i])
    return count


@compiled
def count_groups(
    bits: Bits,
    magnitude: Key,
    shift: Key,
    codes: Codes,
    slots: Codes,
    weights: Values,
    counts: Uints,
    energy: Numbers,
) -> None:
    """Count elements (slots, groups) by the leading bits of their keys, and sum squared weights.

    The mask ``magnitude`` is that of a key, of which the last ``shift`` bits are ignored.
    """
    is_kept = np.zeros(256, np.uint8)
    is_kept[0] = 1
    for i in range(bits.size):
        group = (bits[i] & magnitude) >> shift
        slot = slots[codes[i]]
        counts[slot, group] += np.uint32(1)
        weight = np.float64(weights[i])
        if np.isfinite(weight):
            energy[group] += weight * is_kept[slot] * weight


def warm_up() -> None:
    """Compile every loop, or load it from the cache, for all dtypes that it is called with."""
    codes, edges = np.zeros(1, np.uint8), np.array([0, 1])
    slots, remaining_mask = np.zeros(256, np.uint8), np.zeros(1, np.bool_)
    counts, unit = np.zeros((1, 3), np.int64), np.array([0.0, 1.0])
    bins, both = np.zeros(1, np.uint32), np.zeros((2, 1), np.bool_)
    ones = np.ones(1, np.int64)
    for values in (np.zeros(1, np.float32), np.zeros(1, np.float64)):
        count_bins(values, codes, slots, unit, counts)
        widen_range(values, np.zeros(2))
        count_channel_steps(codes, values, slots, 1, 0, counts, remaining_mask)
        for kept in (None, remaining_mask):
            add_squares(values, kept, 1, 0, np.zeros(2), np.zeros(2, np.int64), both)
            pair = np.zeros((1, 2), np.int64)
            add_squares_of_each(values, kept, edges, ones, np.zeros((1, 2)), pair, pair.copy())
        find_bins(values, unit, bins)
        add_losses(values, values, np.zeros(3), np.zeros(3, np.int64))
    for bits in (np.zeros(1, np.uint8), np.zeros(1, np.uint16)):
        count_known_bins(bits, codes, slots, bins, counts)
    single, double, groups = np.zeros(1, np.float32), np.zeros(1), np.zeros((1, 1), np.uint32)
    for uint, weights in ((np.uint16, single), (np.uint32, single), (np.uint64, double)):
        for mask in (None, remaining_mask):
            count_between(np.zeros(1, uint), mask, uint(0), uint(0), 0)
        zero = uint(0)
        count_groups(np.zeros(1, uint), zero, zero, codes, slots, weights, groups, np.zeros(1))
