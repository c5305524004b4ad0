"""Compiled loops over the raw bits of scores. They release the GIL, so threads run in parallel.

A *key* is ``bits & magnitude``: the bit pattern of an IEEE number without its sign, read as an
unsigned integer. Keys order as the absolute values do (IEEE 754-2019, 5.10), NaN above infinity.
``remaining_mask`` is None, or a boolean array: elements where it is False are left out. Marking an
element sets ``codes`` at its index to ``step`` if it is still 0. No processor predicts a mask, so
the loops calculate with its values: a branch on them takes about 5 ns per element.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.arrays import Bits, Codes, Flags, Ints, Key
from prune_gui.pruning.kernels.loop import compiled, compiled_unless_small

BLOCK = 4096
"""Elements compared in one block; the flags of a block fit in the L1 cache."""
LONG_ROW = 400
LONG_ROW_DIGIT_BITS = 11
"""Digits of so many keys have more bits than 8: few counters would wait for their last use."""


def _count_leading_in_numpy(
    bits: Bits, remaining_mask: Flags | None, shift: Key, counts: NDArray[np.uint32]
) -> None:
    remaining = bits if remaining_mask is None else bits[remaining_mask]
    values = (remaining >> shift).astype(np.intp)
    counts[0] += np.bincount(values, minlength=counts.shape[1]).astype(np.uint32)


@compiled_unless_small(_count_leading_in_numpy)
def count_leading(
    bits: Bits, remaining_mask: Flags | None, shift: Key, counts: NDArray[np.uint32]
) -> None:
    """Add to ``counts``, of shape (2, values), how often each value of ``bits >> shift`` occurs.

    The sign is counted too: the caller adds the two halves, and the loop is a third faster.
    Elements of odd index are counted in the second table, because incrementing the same counter
    twice in a row is slow, as for the zeros of a pruned tensor.
    """
    even_counts, odd_counts = counts[0], counts[1]
    pairs = bits.size // 2
    if remaining_mask is None:
        for i in range(pairs):
            even_counts[bits[2 * i] >> shift] += np.uint32(1)
            odd_counts[bits[2 * i + 1] >> shift] += np.uint32(1)
        for i in range(2 * pairs, bits.size):
            even_counts[bits[i] >> shift] += np.uint32(1)
    else:  # adding 0 costs less than a mispredicted branch
        for i in range(pairs):
            even_counts[bits[2 * i] >> shift] += np.uint32(remaining_mask[2 * i])
            odd_counts[bits[2 * i + 1] >> shift] += np.uint32(remaining_mask[2 * i + 1])
        for i in range(2 * pairs, bits.size):
            even_counts[bits[i] >> shift] += np.uint32(remaining_mask[i])


@compiled
def find_between(
    bits: Bits, magnitude: Key, min_key: Key, max_key: Key, positions: NDArray[np.uint32]
) -> int:
    """Write the positions of keys in [``min_key``, ``max_key``], and return their number.

    Fast if there are few: eight elements without a match are skipped at once.
    """
    between = np.zeros(BLOCK, np.uint8)
    words, count = between.view(np.uint64), 0
    for start in range(0, bits.size, BLOCK):
        block = bits[start : start + BLOCK]
        for i in range(block.size):
            key = block[i] & magnitude
            between[i] = (key >= min_key) & (key <= max_key)
        between[block.size :] = 0
        for word in range(words.size):
            if words[word] != 0:
                for i in range(8 * word, 8 * word + 8):
                    if between[i]:
                        positions[count] = start + i
                        count += 1
    return count


def _count_digits_between_in_numpy(
    bits: Bits,
    magnitude: Key,
    remaining_mask: Flags | None,
    min_key: Key,
    max_key: Key,
    shift: Key,
    digit: Key,
    counts: NDArray[np.uint32],
) -> None:
    keys = (bits if remaining_mask is None else bits[remaining_mask]) & magnitude
    between = keys[(keys >= min_key) & (keys <= max_key)]
    digits = ((between >> shift) & digit).astype(np.intp)
    counts += np.bincount(digits, minlength=counts.size).astype(np.uint32)


@compiled_unless_small(_count_digits_between_in_numpy)
def count_digits_between(
    bits: Bits,
    magnitude: Key,
    remaining_mask: Flags | None,
    min_key: Key,
    max_key: Key,
    shift: Key,
    digit: Key,
    counts: NDArray[np.uint32],
) -> None:
    """Count each value of ``(key >> shift) & digit``, for keys in [``min_key``, ``max_key``]."""
    positions = np.empty(BLOCK, np.uint32)
    for start in range(0, bits.size, BLOCK):
        block = bits[start : start + BLOCK]
        for i in positions[: find_between(block, magnitude, min_key, max_key, positions)]:
            if remaining_mask is None or remaining_mask[start + i]:
                counts[((block[i] & magnitude) >> shift) & digit] += np.uint32(1)


@compiled
def group_digits(
    bits: Bits, remaining_mask: Flags | None, ends: NDArray[np.uint32], digits: NDArray[np.uint16]
) -> None:
    """Group the low 16 bits of elements by the high ones; ``ends`` are first their starts."""
    for i in range(bits.size):
        if remaining_mask is None or remaining_mask[i]:
            group = bits[i] >> np.uint32(16)
            digits[ends[group]] = bits[i] & np.uint32(0xFFFF)
            ends[group] += np.uint32(1)


@compiled
def find_tie(
    bits: Bits, magnitude: Key, remaining_mask: Flags | None, threshold: Key, ordinal: int
) -> tuple[int, int]:
    """Return the position of the ``ordinal``-th ``threshold``, or -1; and how many are found."""
    seen = 0
    for i in range(bits.size):
        if bits[i] & magnitude == threshold and (remaining_mask is None or remaining_mask[i]):
            seen += 1
            if seen == ordinal:
                return i, seen
    return -1, seen


@compiled
def count_before(
    bits: Bits, magnitude: Key, remaining_mask: Flags | None, key: Key, index: int
) -> tuple[int, int]:
    """Count the keys that rank before ``key`` at ``index``, and all keys; of ties the first."""
    before, remaining = 0, 0
    for i in range(bits.size):
        counted = remaining_mask is None or remaining_mask[i]
        other = bits[i] & magnitude
        remaining += counted
        before += counted & ((other < key) | ((other == key) & (i < index)))
    return before, remaining


def _mark_below_in_numpy(
    bits: Bits, magnitude: Key, threshold: Key, last_tie: int, step: np.uint8, codes: Codes
) -> None:
    keys = bits & magnitude
    below = keys < threshold
    ties = max(last_tie + 1, 0)
    below[:ties] |= keys[:ties] == threshold
    codes[below & (codes == 0)] = step


@compiled_unless_small(_mark_below_in_numpy)
def mark_below(
    bits: Bits, magnitude: Key, threshold: Key, last_tie: int, step: np.uint8, codes: Codes
) -> None:
    """Mark where the key is below ``threshold``, or equal to it at an index up to ``last_tie``."""
    ties = min(max(last_tie + 1, 0), bits.size)
    for i in range(ties):
        codes[i] = step if bits[i] & magnitude <= threshold and codes[i] == 0 else codes[i]
    rest, codes_of_rest = bits[ties:], codes[ties:]  # slices: the loop is vectorized only from 0 on
    for i in range(rest.size):
        below = rest[i] & magnitude < threshold
        codes_of_rest[i] = step if below and codes_of_rest[i] == 0 else codes_of_rest[i]


def _copy_kept_in_numpy(bits: Bits, codes: Codes, out: Bits) -> None:
    np.multiply(bits, codes == 0, out=out)


@compiled_unless_small(_copy_kept_in_numpy)
def copy_kept(bits: Bits, codes: Codes, out: Bits) -> None:
    """Copy the elements that no step prunes, and set the others to 0.

    With a condition in place of the product, 8 and 16 bits take 15 to 30 times as long on
    processors without AVX-512.
    """
    as_key = bits.dtype.type
    for i in range(bits.size):
        out[i] = bits[i] * as_key(codes[i] == 0)


@compiled
def count_cut_of_each(
    bits: Bits,
    magnitude: Key,
    remaining_mask: Flags | None,
    bounds: Ints,
    threshold: Key,
    last_tie: int,
    first_non_finite: Key,
    counts: Ints,
) -> None:
    """Count the effect of one cut on each of many concatenated tensors.

    The columns of ``counts``, of shape (tensors, 4), are the numbers of keys below ``threshold``,
    of ties (keys equal to it), of ties up to ``last_tie``, and of non-finite keys.
    """
    for tensor in range(bounds.size - 1):
        below, ties, pruned_ties, non_finite = 0, 0, 0, 0
        for i in range(bounds[tensor], bounds[tensor + 1]):
            counted = remaining_mask is None or remaining_mask[i]
            key = bits[i] & magnitude
            below += counted & (key < threshold)
            ties += counted & (key == threshold)
            pruned_ties += counted & (key == threshold) & (i <= last_tie)
            non_finite += counted & (key >= first_non_finite)
        counts[tensor, 0], counts[tensor, 1] = below, ties
        counts[tensor, 2], counts[tensor, 3] = pruned_ties, non_finite


@compiled
def mark_below_each(
    bits: Bits,
    magnitude: Key,
    bounds: Ints,
    thresholds: Bits,
    last_ties: Ints,
    step: np.uint8,
    codes: Codes,
) -> None:
    """Apply `mark_below` to each of many concatenated tensors, with a cut per tensor."""
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
def mark_where(pruned: Flags, step: np.uint8, codes: Codes) -> None:
    """Mark the elements where ``pruned`` is True."""
    for i in range(codes.size):
        codes[i] = step if pruned[i] and codes[i] == 0 else codes[i]


@compiled
def cut_rows(
    bits: Bits,
    magnitude: Key,
    remaining_mask: Flags | None,
    units: Ints,
    thresholds: Bits,
    last_ties: Ints,
) -> None:
    """Find the cut of each row that prunes its ``units`` smallest elements; ties are columns."""
    columns = bits.size // units.size
    keys = np.empty(columns, bits.dtype)
    for row in range(units.size):
        first, remaining = row * columns, 0
        for i in range(first, first + columns):
            keys[remaining] = bits[i] & magnitude
            remaining += remaining_mask is None or remaining_mask[i]
        if units[row] == 0:
            continue
        threshold, ties = _nth_lowest(keys[:remaining], units[row])
        thresholds[row] = threshold
        for i in range(columns):
            if bits[first + i] & magnitude == threshold and (
                remaining_mask is None or remaining_mask[first + i]
            ):
                ties -= 1
                if ties == 0:
                    last_ties[row] = i
                    break


@compiled
def _nth_lowest(keys: Bits, n: int) -> tuple[Key, int]:
    """Return the ``n``-th lowest key, from 1, and how many keys equal to it are among the ``n``.

    The keys are counted by their leading digit, those in the bin of the result are moved to the
    front and counted by the next digit, and so on. A partition by comparisons takes five times as
    long, because half of its branches are mispredicted.
    """
    size, above, as_key = keys.size, 8 * keys.itemsize, keys.dtype.type
    table = np.empty(1 << LONG_ROW_DIGIT_BITS, np.int64)
    while above > 0 and size > 1:
        digit_bits = 8 if size < LONG_ROW or keys.itemsize == 1 else LONG_ROW_DIGIT_BITS
        above, counts = max(above - digit_bits, 0), table[: 1 << digit_bits]
        shift, digits = as_key(above), as_key(counts.size - 1)
        counts[:] = 0
        for i in range(size):
            counts[(keys[i] >> shift) & digits] += 1
        digit = 0
        while counts[digit] < n:
            n -= counts[digit]
            digit += 1
        kept = 0
        for i in range(size):
            key = keys[i]
            keys[kept] = key
            kept += (key >> shift) & digits == as_key(digit)
        size = kept
    return keys[0], n


@compiled
def mark_rows(
    bits: Bits,
    magnitude: Key,
    thresholds: Bits,
    last_ties: Ints,
    inner: int,
    start: int,
    step: np.uint8,
    codes: Codes,
) -> None:
    """Apply `mark_below` to each row, with a cut per row.

    The elements of a row are in runs of ``inner`` consecutive ones, and after a run of the last row
    follows the next one of the first; ``start`` is the flat index of ``codes[0]``.
    """
    offset, row, begin = start % inner, start // inner % thresholds.size, 0
    first = start // inner // thresholds.size * inner  # the column where the run begins
    while begin < codes.size:
        if inner == 1:
            end = min(begin + thresholds.size - row, codes.size)
            own, ties = thresholds[row : row + end - begin], last_ties[row : row + end - begin]
            keys, marked = bits[begin:end], codes[begin:end]
            for i in range(keys.size):
                key = keys[i] & magnitude
                below = (key < own[i]) | ((key == own[i]) & (first <= ties[i]))
                marked[i] = step if below and marked[i] == 0 else marked[i]
            row = thresholds.size - 1
        else:
            end = min(begin + inner - offset, codes.size)
            last_tie = last_ties[row] - first - offset
            mark_below(
                bits[begin:end], magnitude, thresholds[row], last_tie, step, codes[begin:end]
            )
        row, offset, begin = row + 1, 0, end
        if row == thresholds.size:
            row, first = 0, first + inner


def _mark_channels_in_numpy(
    pruned: Flags, inner: int, start: int, step: np.uint8, codes: Codes
) -> None:
    channels = np.arange(start, start + codes.size) // inner % pruned.size
    codes[pruned[channels] & (codes == 0)] = step


@compiled_unless_small(_mark_channels_in_numpy)
def mark_channels(pruned: Flags, inner: int, start: int, step: np.uint8, codes: Codes) -> None:
    """Mark pruned channels, in runs of ``inner`` elements, from the flat index ``start`` on."""
    offset, channel, begin = start % inner, start // inner % pruned.size, 0
    while begin < codes.size:
        if inner == 1:
            end = min(begin + pruned.size - channel, codes.size)
            mark_where(pruned[channel : channel + end - begin], step, codes[begin:end])
            channel = pruned.size - 1
        else:
            end = min(begin + inner - offset, codes.size)
            run = codes[begin:end] if pruned[channel] else codes[:0]
            for i in range(run.size):
                run[i] = step if run[i] == 0 else run[i]
        channel, offset, begin = channel + 1 if channel + 1 < pruned.size else 0, 0, end


@compiled
def count_channels(marked: Flags, inner: int, start: int, counts: Ints) -> None:
    """Add the number of marked elements of each channel to ``counts``; see `mark_channels`."""
    offset = start % inner
    channel = start // inner % counts.size
    for i in range(marked.size):
        counts[channel] += marked[i]
        offset += 1
        if offset == inner:
            offset = 0
            channel = channel + 1 if channel + 1 < counts.size else 0


@compiled
def fill_random_bits(stream: np.uint64, start: np.uint64, out: NDArray[np.uint32]) -> None:
    """Fill ``out`` with 32 random bits for each index from ``start`` on.

    They are the upper half of SplitMix64's output at that index of its sequence (Steele, Lea and
    Flood, "Fast splittable pseudorandom number generators", 2014). Any span can be computed alone.
    """
    for i in range(out.size):
        z = stream + (start + np.uint64(i) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
        out[i] = np.uint32(z >> np.uint64(32))
