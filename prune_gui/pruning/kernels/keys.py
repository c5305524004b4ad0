"""Compiled loops over raw bits. They release the GIL, so threads run them in parallel.

A *key* is ``bits & magnitude``: the bit pattern of an IEEE number without its sign, read as an
unsigned integer, which orders as the absolute value does (IEEE 754-2019, 5.10), NaN above infinity.
``remaining_mask`` is None, or a boolean array: elements where it is False are left out. To *mark*
an element is to set ``codes`` at its index to ``step``, if it is still 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prune_gui.pruning.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]
    Codes = NDArray[np.uint8]
    RemainingMask = NDArray[np.bool_] | None

BLOCK = 4096
"""So many entries are compared together, to fit a processor's nearest cache; then looked at."""


@compiled
def count_leading(
    bits: Bits,
    remaining_mask: RemainingMask,
    shift: np.unsignedinteger[Any],
    counts: NDArray[np.uint32],
) -> None:
    """Add to ``counts``, of shape (2, values), how often each value of ``bits >> shift`` occurs.

    The sign counts as a bit: whoever leaves it out adds two halves, and the loop is a third faster.
    Every other entry goes into the second table, since to count a value right after itself, as the
    zeros of a pruned tensor, is slow.
    """
    even, odd = counts[0], counts[1]
    pairs = bits.size // 2
    if remaining_mask is None:
        for i in range(pairs):
            even[bits[2 * i] >> shift] += np.uint32(1)
            odd[bits[2 * i + 1] >> shift] += np.uint32(1)
        for i in range(2 * pairs, bits.size):
            even[bits[i] >> shift] += np.uint32(1)
    else:  # adding 0 costs less than a branch that is guessed wrong
        for i in range(pairs):
            even[bits[2 * i] >> shift] += np.uint32(remaining_mask[2 * i])
            odd[bits[2 * i + 1] >> shift] += np.uint32(remaining_mask[2 * i + 1])
        for i in range(2 * pairs, bits.size):
            even[bits[i] >> shift] += np.uint32(remaining_mask[i])


@compiled
def find_between(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    least: np.unsignedinteger[Any],
    most: np.unsignedinteger[Any],
    found: NDArray[np.uint32],
) -> int:
    """List the positions of keys from ``least`` to ``most``, and return how many there are.

    Made for few of them: eight entries of which none is meant are passed over at once.
    """
    between = np.zeros(BLOCK, np.uint8)
    eights, count = between.view(np.uint64), 0
    for start in range(0, bits.size, BLOCK):
        block = bits[start : start + BLOCK]
        for i in range(block.size):
            key = block[i] & magnitude
            between[i] = (key >= least) & (key <= most)
        between[block.size :] = 0
        for place in range(eights.size):
            if eights[place] != 0:
                for i in range(8 * place, 8 * place + 8):
                    if between[i]:
                        found[count] = start + i
                        count += 1
    return count


@compiled
def count_digits_between(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    least: np.unsignedinteger[Any],
    most: np.unsignedinteger[Any],
    shift: np.unsignedinteger[Any],
    digit: np.unsignedinteger[Any],
    counts: NDArray[np.uint32],
) -> None:
    """Add to ``counts`` how often each value of ``(key >> shift) & digit`` occurs.

    Only keys from ``least`` to ``most`` count.
    """
    found = np.empty(BLOCK, np.uint32)
    for start in range(0, bits.size, BLOCK):
        block = bits[start : start + BLOCK]
        for i in found[: find_between(block, magnitude, least, most, found)]:
            if remaining_mask is None or remaining_mask[start + i]:
                counts[((block[i] & magnitude) >> shift) & digit] += np.uint32(1)


@compiled
def count_ties(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    threshold: np.unsignedinteger[Any],
) -> int:
    """Count the keys equal to ``threshold``."""
    found = 0
    for i in range(bits.size):
        found += (bits[i] & magnitude == threshold) & (remaining_mask is None or remaining_mask[i])
    return found


@compiled
def find_tie(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    threshold: np.unsignedinteger[Any],
    ordinal: int,
) -> int:
    """Return the position of the ``ordinal``-th (from 1) key equal to ``threshold``."""
    seen = 0
    for i in range(bits.size):
        if bits[i] & magnitude == threshold and (remaining_mask is None or remaining_mask[i]):
            seen += 1
            if seen == ordinal:
                return i
    raise AssertionError("fewer ties than were counted")


@compiled
def count_before(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    key: np.unsignedinteger[Any],
    place: int,
) -> tuple[int, int]:
    """Count keys below ``key``, or equal to it ahead of ``place``; and count all keys."""
    before, there = 0, 0
    for i in range(bits.size):
        if remaining_mask is None or remaining_mask[i]:
            there += 1
            other = bits[i] & magnitude
            if other < key or (other == key and i < place):
                before += 1
    return before, there


@compiled
def mark_below(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    threshold: np.unsignedinteger[Any],
    last_tie: int,
    step: np.uint8,
    codes: Codes,
) -> None:
    """Mark where the key is below ``threshold``, or equal to it up to ``last_tie``."""
    ties = min(max(last_tie + 1, 0), bits.size)
    for i in range(ties):
        codes[i] = step if bits[i] & magnitude <= threshold and codes[i] == 0 else codes[i]
    rest, codes_of_rest = bits[ties:], codes[ties:]  # from 0 on, or the loop is not vectorized
    for i in range(rest.size):
        below = rest[i] & magnitude < threshold
        codes_of_rest[i] = step if below and codes_of_rest[i] == 0 else codes_of_rest[i]


@compiled
def count_cut_of_each(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    bounds: NDArray[np.int64],
    threshold: np.unsignedinteger[Any],
    last_tie: int,
    first_non_finite: np.unsignedinteger[Any],
    found: NDArray[np.int64],
) -> None:
    """Count of each of many tensors, one after the other, what a cut through all of them does.

    Into ``found``, of shape (tensors, 4): the keys below ``threshold``, those equal to it, of these
    the ones up to ``last_tie``, and the keys from ``first_non_finite`` on.
    """
    for tensor in range(bounds.size - 1):
        below, there, go, odd = 0, 0, 0, 0
        for i in range(bounds[tensor], bounds[tensor + 1]):
            if remaining_mask is None or remaining_mask[i]:
                key = bits[i] & magnitude
                below += key < threshold
                there += key == threshold
                go += (key == threshold) & (i <= last_tie)
                odd += key >= first_non_finite
        found[tensor, 0], found[tensor, 1] = below, there
        found[tensor, 2], found[tensor, 3] = go, odd


@compiled
def mark_below_each(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    bounds: NDArray[np.int64],
    thresholds: Bits,
    last_ties: NDArray[np.int64],
    step: np.uint8,
    codes: Codes,
) -> None:
    """Do as `mark_below` for many tensors, one after the other, each by its own cut."""
    for tensor in range(thresholds.size):
        start, stop = bounds[tensor], bounds[tensor + 1]
        mark_below(
            bits[start:stop],
            magnitude,
            thresholds[tensor],
            last_ties[tensor],
            step,
            codes[start:stop],
        )


@compiled
def mark_where(pruned: NDArray[np.bool_], step: np.uint8, codes: Codes) -> None:
    """Mark where an entry is pruned."""
    for i in range(codes.size):
        codes[i] = step if pruned[i] and codes[i] == 0 else codes[i]


@compiled
def cut_rows(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    remaining_mask: RemainingMask,
    units: NDArray[np.int64],
    thresholds: Bits,
    last_ties: NDArray[np.int64],
) -> None:
    """Find for each row the key of its ``units``-th smallest entry, and the last tie that goes."""
    columns = bits.size // units.size
    keys = np.empty(columns, bits.dtype)
    for row in range(units.size):
        first, there = row * columns, 0
        for i in range(first, first + columns):
            if remaining_mask is None or remaining_mask[i]:
                keys[there] = bits[i] & magnitude
                there += 1
        wanted = units[row]
        if wanted == 0:
            continue
        threshold = np.partition(keys[:there], wanted - 1)[wanted - 1]
        thresholds[row] = threshold
        for i in range(there):
            wanted -= keys[i] < threshold
        for i in range(columns):
            if bits[first + i] & magnitude == threshold and (
                remaining_mask is None or remaining_mask[first + i]
            ):
                wanted -= 1
                if wanted == 0:
                    last_ties[row] = i
                    break


@compiled
def mark_rows(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    thresholds: Bits,
    last_ties: NDArray[np.int64],
    columns: int,
    start: int,
    step: np.uint8,
    codes: Codes,
) -> None:
    """Do as `mark_below`, each row of ``columns`` entries by its own cut.

    ``start`` is the flat index of ``codes[0]``.
    """
    row, place, begin = start // columns, start % columns, 0
    while begin < codes.size:
        end = min(begin + columns - place, codes.size)
        last_tie = last_ties[row] - place
        mark_below(bits[begin:end], magnitude, thresholds[row], last_tie, step, codes[begin:end])
        row, place, begin = row + 1, 0, end


@compiled
def mark_channels(
    pruned: NDArray[np.bool_], inner: int, start: int, step: np.uint8, codes: Codes
) -> None:
    """Mark where the channel of an entry is pruned.

    A channel's entries come in runs of ``inner``; ``start`` is the flat index of ``codes[0]``.
    """
    place = start % inner
    channel = start // inner % pruned.size
    for i in range(codes.size):
        codes[i] = step if pruned[channel] and codes[i] == 0 else codes[i]
        place += 1
        if place == inner:
            place = 0
            channel = channel + 1 if channel + 1 < pruned.size else 0


@compiled
def count_channels(
    marked: NDArray[np.bool_], inner: int, start: int, counts: NDArray[np.int64]
) -> None:
    """Add to ``counts`` how many entries of each channel are marked; as `mark_channels`."""
    place = start % inner
    channel = start // inner % counts.size
    for i in range(marked.size):
        counts[channel] += marked[i]
        place += 1
        if place == inner:
            place = 0
            channel = channel + 1 if channel + 1 < counts.size else 0


@compiled
def fill_random_bits(stream: np.uint64, start: np.uint64, out: NDArray[np.uint32]) -> None:
    """Fill ``out`` with 32 random bits for each of the indices from ``start`` on.

    The upper half of SplitMix64's output at that place of its sequence (Steele, Lea and Flood,
    "Fast splittable pseudorandom number generators", 2014), so that any stretch can be made alone.
    """
    for i in range(out.size):
        z = stream + (start + np.uint64(i) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        out[i] = np.uint32(z >> np.uint64(32))


@compiled
def are_binary(bits: Bits, one: np.unsignedinteger[Any], minus: np.unsignedinteger[Any]) -> bool:
    """Tell whether all bits are 0, or ``one``, or ``minus``: those of 1 and of -0."""
    others = 0
    for i in range(bits.size):
        others += (bits[i] != 0) & (bits[i] != one) & (bits[i] != minus)
    return others == 0
