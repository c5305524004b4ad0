"""Kernels of Triton that select the lowest keys of tensors on a GPU, see `device_select`.

The state of a search is two numbers on the card: the leading digits of the k-th lowest key that are
known, and how many of the keys with these digits are pruned. A pass over the keys counts the next
digit of those with the known ones. One buffer holds the state before each digit and, behind it, the
counts of that digit, and the last state. To launch a kernel takes the host longer than to pick a
digit takes the card, so each pass picks the digit that the pass before has counted.

`tl.histogram` counts the first two digits, of 8 bits. Few keys agree in these, which are the
exponent and the first bits of the mantissa of a float32, so atomic additions count the other bits.
Triton refuses annotations of its functions other than `tl.constexpr`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from prune_gui.pruning.selection.keys import SIGNED, DeviceKeys, Units, bits_of_one, count_of

BLOCK: Final = 4096
"""Keys that a program reads at once; a power of 2."""
ROUNDS: Final = 8
"""Blocks that a program counts before it adds its table to that of all."""
DENSE_BITS, MAX_SPARSE_BITS = 8, 15


class Digit(NamedTuple):
    """Bits of a key, and how they are counted."""

    start: int  # of its state in the buffer
    earlier_bits: int  # of the digit before, 0 for the first
    shift: int
    bits: int
    is_sparse: bool


def select(every: deque[DeviceKeys], units: Units, dtype: torch.dtype) -> Iterator[Tensor]:
    """Yield a mask per tensor, without the `units` lowest of all remaining keys."""
    device = every[0].bits.device
    with torch.cuda.device_of(every[0].bits):
        digits = list(digits_of(every[0].magnitude.bit_length()))
        last = digits[-1]
        end = last.start + 2 + (1 << last.bits)
        search = torch.zeros(end + 2, dtype=torch.int64, device=device)
        for digit in digits:
            for keys in every:
                programs = triton.cdiv(keys.bits.numel(), BLOCK * ROUNDS)
                if programs:
                    count_digits[programs,](*_arguments(keys), search, *digit, BLOCK, ROUNDS)
            if digit.start == 0:
                k = count_of(units, every, search[2 : 2 + (1 << digit.bits)])
                search[1].fill_(k)  # to assign it would copy it from the host
        pick_last_digit[1,](search, end, last.bits, num_warps=16 if last.is_sparse else 4)
    state = search[end:]
    one = bits_of_one(dtype)
    while every:
        keys = every.popleft()
        kept = torch.empty_like(keys.bits, dtype=dtype)
        blocks = triton.cdiv(kept.numel(), BLOCK)
        if blocks:
            with torch.cuda.device_of(kept):
                ties = torch.empty(blocks, dtype=torch.int64, device=device)
                marks = kept.view(SIGNED[dtype.itemsize])
                mark_kept[blocks,](*_arguments(keys), state, marks, one, ties, BLOCK)
                up_to = ties.cumsum(0)
                prune_ties[blocks,](*_arguments(keys), state, marks, ties, up_to, BLOCK)
                if every:
                    state[1:].sub_(up_to[-1:])
        shape = keys.shape
        del keys
        yield kept.view(shape)


def digits_of(bits: int) -> Iterator[Digit]:
    """Yield the digits of keys of so many bits, the leading one first."""
    sparse_bits = max(bits - 2 * DENSE_BITS, 0)
    dense_bits = bits - sparse_bits
    passes = -(-sparse_bits // MAX_SPARSE_BITS)
    widths = [min(DENSE_BITS, dense_bits), max(dense_bits - DENSE_BITS, 0)]
    widths += [(sparse_bits + i) // passes for i in reversed(range(passes))]
    start = earlier = 0
    for i, width in enumerate(filter(None, widths)):
        bits -= width
        yield Digit(start, earlier, bits, width, i > 1)
        start, earlier = start + 2 + (1 << width), width


def _arguments(keys: DeviceKeys) -> tuple[object, ...]:
    remaining = keys.bits if keys.remaining is None else keys.remaining
    if remaining.dtype == torch.bool:
        remaining = remaining.view(torch.uint8)
    numbers = (keys.magnitude, keys.highest, keys.flip)
    return keys.bits, remaining, keys.bits.numel(), keys.remaining is not None, *numbers


@triton.jit
def _read(
    bits,
    remaining,
    size,
    MASKED: tl.constexpr,
    MAGNITUDE: tl.constexpr,
    HIGHEST: tl.constexpr,
    FLIP: tl.constexpr,
    offsets,
):
    """Return the keys at some offsets, and which of them are ranked."""
    ranked = offsets < size
    keys = tl.load(bits + offsets, mask=ranked, other=0)
    if MAGNITUDE < 2**31:
        keys = keys.to(tl.int32)
    keys = tl.minimum(keys & MAGNITUDE, HIGHEST)
    if FLIP:
        keys = FLIP - keys
    if MASKED:
        ranked = ranked & (tl.load(remaining + offsets, mask=ranked, other=0) != 0)
    return keys, ranked


@triton.jit
def _pick(state, BITS: tl.constexpr):
    """Return the state after a digit of `BITS` bits, whose counts follow the state before."""
    COLUMNS: tl.constexpr = 1 << BITS // 2
    ROWS: tl.constexpr = 1 << BITS - BITS // 2
    columns = tl.arange(0, COLUMNS)
    counts = state + 2
    wanted = tl.load(state + 1)
    table = tl.load(counts + tl.arange(0, ROWS)[:, None] * COLUMNS + columns[None, :])
    totals = tl.sum(table, 1)
    is_below = tl.cumsum(totals, 0) < wanted
    first = tl.sum(is_below.to(tl.int64), 0) * COLUMNS
    wanted -= tl.sum(tl.where(is_below, totals, 0), 0)
    row = tl.load(counts + first + columns)
    is_below = tl.cumsum(row, 0) < wanted
    digit = first + tl.sum(is_below.to(tl.int64), 0)
    wanted -= tl.sum(tl.where(is_below, row, 0), 0)
    return tl.load(state) * (ROWS * COLUMNS) + digit, wanted


@triton.jit
def count_digits(
    bits,
    remaining,
    size,
    MASKED: tl.constexpr,
    MAGNITUDE: tl.constexpr,
    HIGHEST: tl.constexpr,
    FLIP: tl.constexpr,
    search,
    START: tl.constexpr,
    EARLIER: tl.constexpr,
    SHIFT: tl.constexpr,
    BITS: tl.constexpr,
    SPARSE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    """Pick the digit of `EARLIER` bits, and count how often each next digit follows it."""
    DIGITS: tl.constexpr = 1 << BITS
    start = tl.program_id(0).to(tl.int64) * (BLOCK * ROUNDS)
    counts = search + START + 2
    if EARLIER:
        prefix, wanted = _pick(search + (START - 2 - (1 << EARLIER)), EARLIER)
        if tl.program_id(0) == 0:
            tl.store(search + START, prefix)
            tl.store(search + START + 1, wanted)
    table = tl.zeros((DIGITS,), tl.int32)
    for i in range(ROUNDS):
        offsets = start + i * BLOCK + tl.arange(0, BLOCK)
        keys, counted = _read(bits, remaining, size, MASKED, MAGNITUDE, HIGHEST, FLIP, offsets)
        if EARLIER:
            counted = counted & ((keys >> SHIFT + BITS) == prefix.to(keys.dtype))
        digits = ((keys >> SHIFT) & (DIGITS - 1)).to(tl.int32)
        if SPARSE:
            lowest = tl.min(tl.where(counted, digits, DIGITS), 0)
            if lowest == tl.max(tl.where(counted, digits, -1), 0):  # as of the zeros of a file
                tl.atomic_add(counts + lowest, tl.sum(counted.to(tl.int64), 0), sem="relaxed")
            else:
                tl.atomic_add(counts + digits, counted.to(tl.int64), mask=counted, sem="relaxed")
        else:
            table += tl.histogram(digits, DIGITS, mask=counted)
    if not SPARSE:
        tl.atomic_add(counts + tl.arange(0, DIGITS), table.to(tl.int64), sem="relaxed")


@triton.jit
def pick_last_digit(search, END: tl.constexpr, BITS: tl.constexpr):
    """Store the state after the last digit, which is that of the k-th lowest key."""
    prefix, wanted = _pick(search + (END - 2 - (1 << BITS)), BITS)
    tl.store(search + END, prefix)
    tl.store(search + END + 1, wanted)


@triton.jit
def mark_kept(
    bits,
    remaining,
    size,
    MASKED: tl.constexpr,
    MAGNITUDE: tl.constexpr,
    HIGHEST: tl.constexpr,
    FLIP: tl.constexpr,
    state,
    kept,
    ONE: tl.constexpr,
    ties,
    BLOCK: tl.constexpr,
):
    """Write `ONE` for the ranked keys that are not below the k-th lowest, and count those equal."""
    block = tl.program_id(0)
    offsets = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    keys, ranked = _read(bits, remaining, size, MASKED, MAGNITUDE, HIGHEST, FLIP, offsets)
    threshold = tl.load(state).to(keys.dtype)
    marks = (ranked & (keys >= threshold)).to(kept.dtype.element_ty) * ONE
    tl.store(kept + offsets, marks, mask=offsets < size)
    tl.store(ties + block, tl.sum((ranked & (keys == threshold)).to(tl.int64), 0))


@triton.jit
def prune_ties(
    bits,
    remaining,
    size,
    MASKED: tl.constexpr,
    MAGNITUDE: tl.constexpr,
    HIGHEST: tl.constexpr,
    FLIP: tl.constexpr,
    state,
    kept,
    ties,
    up_to,
    BLOCK: tl.constexpr,
):
    """Write 0 for the first of the keys that equal the k-th lowest, as many as are wanted."""
    block = tl.program_id(0)
    own = tl.load(ties + block)
    wanted = tl.load(state + 1) - (tl.load(up_to + block) - own)
    if (own > 0) & (wanted > 0):
        offsets = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        keys, ranked = _read(bits, remaining, size, MASKED, MAGNITUDE, HIGHEST, FLIP, offsets)
        equal = ranked & (keys == tl.load(state).to(keys.dtype))
        goes = equal & (tl.cumsum(equal.to(tl.int32), 0) <= wanted)
        tl.store(kept + offsets, tl.zeros((BLOCK,), kept.dtype.element_ty), mask=goes)
