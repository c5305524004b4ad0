"""Compiled loops over raw bits. They hold no lock of Python's, so threads run them side by side.

A *key* is ``bits & magnitude``: the bit pattern of an IEEE number without its sign, read as an
unsigned integer, which orders as the absolute value does (IEEE 754-2019, 5.10), NaN above infinity.
``alive`` is None, or a boolean array: entries where it is False do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bits = NDArray[np.unsignedinteger[Any]]
    Alive = NDArray[np.bool_] | None

F = TypeVar("F", bound="Callable[..., Any]")


def compiled(function: F) -> F:
    """Compile a loop on first use, and keep what was compiled for the next run."""
    return cast("F", numba.njit(nogil=True, cache=True)(function))


@compiled
def count_leading(
    bits: Bits,
    alive: Alive,
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
    if alive is None:
        for i in range(pairs):
            even[bits[2 * i] >> shift] += np.uint32(1)
            odd[bits[2 * i + 1] >> shift] += np.uint32(1)
        for i in range(2 * pairs, bits.size):
            even[bits[i] >> shift] += np.uint32(1)
    else:  # adding 0 costs less than a branch that is guessed wrong
        for i in range(pairs):
            even[bits[2 * i] >> shift] += np.uint32(alive[2 * i])
            odd[bits[2 * i + 1] >> shift] += np.uint32(alive[2 * i + 1])
        for i in range(2 * pairs, bits.size):
            even[bits[i] >> shift] += np.uint32(alive[i])


@compiled
def count_digits_below(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    alive: Alive,
    shift: np.unsignedinteger[Any],
    digit: np.unsignedinteger[Any],
    above: np.unsignedinteger[Any],
    prefix: np.unsignedinteger[Any],
    counts: NDArray[np.uint32],
) -> None:
    """Add to ``counts`` how often each value of ``(key >> shift) & digit`` occurs.

    Only keys with ``key >> above == prefix`` count.
    """
    for i in range(bits.size):
        key = bits[i] & magnitude
        if key >> above == prefix and (alive is None or alive[i]):
            counts[(key >> shift) & digit] += np.uint32(1)


@compiled
def count_ties(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    alive: Alive,
    threshold: np.unsignedinteger[Any],
) -> int:
    """Count the keys equal to ``threshold``."""
    found = 0
    for i in range(bits.size):
        found += (bits[i] & magnitude == threshold) & (alive is None or alive[i])
    return found


@compiled
def find_tie(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    alive: Alive,
    threshold: np.unsignedinteger[Any],
    ordinal: int,
) -> int:
    """Return the position of the ``ordinal``-th (from 1) key equal to ``threshold``."""
    seen = 0
    for i in range(bits.size):
        if bits[i] & magnitude == threshold and (alive is None or alive[i]):
            seen += 1
            if seen == ordinal:
                return i
    raise AssertionError("fewer ties than were counted")


@compiled
def count_before(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    alive: Alive,
    key: np.unsignedinteger[Any],
    place: int,
) -> tuple[int, int]:
    """Count keys below ``key``, or equal to it ahead of ``place``; and count all keys."""
    before, there = 0, 0
    for i in range(bits.size):
        if alive is None or alive[i]:
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
    out: NDArray[np.bool_],
) -> None:
    """Set ``out`` where the key is below ``threshold``, or equal to it up to ``last_tie``."""
    ties = min(max(last_tie + 1, 0), bits.size)
    for i in range(ties):
        out[i] = bits[i] & magnitude <= threshold
    rest, out_rest = bits[ties:], out[ties:]  # from 0 on, or the loop is not vectorized
    for i in range(rest.size):
        out_rest[i] = rest[i] & magnitude < threshold


@compiled
def find_between(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    least: np.unsignedinteger[Any],
    threshold: np.unsignedinteger[Any],
    last_tie: int,
    found: NDArray[np.uint32],
) -> int:
    """List the positions that `mark_below` marks, but for keys below ``least``; return how many."""
    count, reach = 0, np.uint64(threshold - least)
    for i in range(bits.size):
        key = bits[i] & magnitude
        # Of a key below the least the difference wraps around, so that one comparison does.
        if np.uint64(key - least) <= reach and (key < threshold or i <= last_tie):
            found[count] = i
            count += 1
    return count


@compiled
def mark_step(pruned: NDArray[np.bool_], step: np.uint8, out: NDArray[np.uint8]) -> None:
    """Set ``out`` to ``step`` where it is 0 and an entry is pruned."""
    for i in range(out.size):
        out[i] = step if pruned[i] and out[i] == 0 else out[i]


@compiled
def cut_rows(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    alive: Alive,
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
            if alive is None or alive[i]:
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
            if bits[first + i] & magnitude == threshold and (alive is None or alive[first + i]):
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
    out: NDArray[np.bool_],
) -> None:
    """Do as `mark_below`, each row of ``columns`` entries by its own cut."""
    row, place = start // columns, start % columns
    for i in range(out.size):
        key = bits[i] & magnitude
        out[i] = key < thresholds[row] or (key == thresholds[row] and place <= last_ties[row])
        place += 1
        if place == columns:
            row, place = row + 1, 0


@compiled
def mark_channels(
    pruned: NDArray[np.bool_], inner: int, start: int, out: NDArray[np.bool_]
) -> None:
    """Set ``out`` where the channel of an entry is pruned.

    A channel's entries come in runs of ``inner``; ``start`` is the flat index of ``out[0]``.
    """
    place = start % inner
    channel = start // inner % pruned.size
    for i in range(out.size):
        out[i] = pruned[channel]
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
