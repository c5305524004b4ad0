"""The compiled loops of `prune_gui.pruning.norms`; what holds of `kernels` holds.

Entries are added up in *lanes* that lie side by side, one vector instruction for several: entry i
goes to lane ``i % lanes.size``, and each ``inner`` neighbouring lanes belong to one channel, after
the last of which comes the first again. After `BAND` entries a lane is added to the float64 sum of
its channel, so that float32 never adds up more. The order of all this depends on shapes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
from numba import types
from numba.extending import overload

from prune_gui.pruning.kernels import compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prune_gui.pruning.kernels import Bits

    Entries = NDArray[np.floating[Any]] | NDArray[np.uint16]
    """Floating-point numbers, or the bits of bfloat16 ones, which numpy does not know."""

F = TypeVar("F", bound="Callable[..., Any]")

LANES: Final = 64
"""Lanes of a single channel: all fit in a processor's registers."""
BAND: Final = 256
"""Entries per lane that are added up before the sum is made in float64."""

NON_ZEROS: Final = 0
ROOTS: Final = 1
VALUES: Final = 2
SQUARES: Final = 3
CUBES: Final = 4


def _value(entry: Any) -> Any:  # noqa: ANN401 - known to the compiler only
    """Return the absolute value of an entry, in float32 or better."""
    raise NotImplementedError


def _means(function: Callable[..., Any]) -> Callable[[F], F]:
    """Say that what follows compiles a function, as the type of its argument asks for."""
    return cast("Callable[[F], F]", overload(function, strict=False))


@_means(_value)
def _compile_value(entry: types.Type) -> Callable[..., Any]:
    if isinstance(entry, types.Float):
        return lambda entry: abs(entry)
    return lambda entry: abs(np.uint32(np.uint32(entry) << np.uint32(16)).view(np.float32))


@compiled
def _one(entry: Any) -> Any:  # noqa: ANN401
    value = _value(entry)
    return type(value)(value != 0)


@compiled
def _root(entry: Any) -> Any:  # noqa: ANN401
    return np.sqrt(_value(entry))


@compiled
def _square(entry: Any) -> Any:  # noqa: ANN401
    value = _value(entry)
    return value * value


@compiled
def _cube(entry: Any) -> Any:  # noqa: ANN401
    value = _value(entry)
    return value * value * value


@compiled
def _power(entry: Any, what: int) -> Any:  # noqa: ANN401
    if what == NON_ZEROS:
        return _one(entry)
    if what == ROOTS:
        return _root(entry)
    if what == VALUES:
        return _value(entry)
    if what == SQUARES:
        return _square(entry)
    return _cube(entry)


@compiled
def add_powers(
    entries: Entries,
    what: int,
    inner: int,
    lanes: NDArray[np.floating[Any]],
    sums: NDArray[np.float64],
) -> None:
    """Add the powers of the entries of each channel to its sum.

    Args:
        entries: (batch, entries), each with channels of its own.
        what: `NON_ZEROS`, and so on: which power.
        inner: entries of a channel side by side.
        lanes: room for whole channels, or a part of a single one, in the type to reckon in.
        sums: (batch, channels).
    """
    for batch in range(entries.shape[0]):
        _add_powers(entries[batch], what, inner, lanes, sums[batch])


@compiled
def _add_powers(
    entries: Entries,
    what: int,
    inner: int,
    lanes: NDArray[np.floating[Any]],
    sums: NDArray[np.float64],
) -> None:
    for start in range(0, entries.size, BAND * lanes.size):
        band = entries[start : start + BAND * lanes.size]
        whole = band.size // lanes.size * lanes.size
        lanes[:] = 0
        _add_rows(band[:whole].reshape(-1, lanes.size), what, lanes)
        _add_row(band[whole:], what, lanes)
        channel = 0
        for first in range(0, lanes.size, inner):
            total = 0.0
            for lane in range(first, first + inner):
                if np.isfinite(lanes[lane]):
                    total += lanes[lane]
                else:
                    total += _add_in_double(band, what, lane, lanes.size)
            sums[channel] += total
            channel = channel + 1 if channel + 1 < sums.size else 0


@compiled
def _add_rows(rows: Entries, what: int, lanes: NDArray[np.floating[Any]]) -> None:
    """Add the powers of rows of entries to the lanes, four at once to load and store those less.

    There is a loop for each power: of one loop, the compiler works out all powers and chooses.
    """
    fours = rows.shape[0] // 4
    for i in range(fours):
        a, b, c, d = rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]
        if what == NON_ZEROS:
            for j in range(lanes.size):
                lanes[j] += (_one(a[j]) + _one(b[j])) + (_one(c[j]) + _one(d[j]))
        elif what == ROOTS:
            for j in range(lanes.size):
                lanes[j] += (_root(a[j]) + _root(b[j])) + (_root(c[j]) + _root(d[j]))
        elif what == VALUES:
            for j in range(lanes.size):
                lanes[j] += (_value(a[j]) + _value(b[j])) + (_value(c[j]) + _value(d[j]))
        elif what == SQUARES:
            for j in range(lanes.size):
                lanes[j] += (_square(a[j]) + _square(b[j])) + (_square(c[j]) + _square(d[j]))
        else:
            for j in range(lanes.size):
                lanes[j] += (_cube(a[j]) + _cube(b[j])) + (_cube(c[j]) + _cube(d[j]))
    for i in range(4 * fours, rows.shape[0]):
        _add_row(rows[i], what, lanes)


@compiled
def _add_row(row: Entries, what: int, lanes: NDArray[np.floating[Any]]) -> None:
    if what == NON_ZEROS:
        for j in range(row.size):
            lanes[j] += _one(row[j])
    elif what == ROOTS:
        for j in range(row.size):
            lanes[j] += _root(row[j])
    elif what == VALUES:
        for j in range(row.size):
            lanes[j] += _value(row[j])
    elif what == SQUARES:
        for j in range(row.size):
            lanes[j] += _square(row[j])
    else:
        for j in range(row.size):
            lanes[j] += _cube(row[j])


@compiled
def _add_in_double(band: Entries, what: int, lane: int, step: int) -> float:
    """Return the sum of one lane, which float32 cannot hold."""
    total = 0.0
    for i in range(lane, band.size, step):
        total += _power(np.float64(_value(band[i])), what)
    return total


@compiled
def find_greatest(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    flip: np.unsignedinteger[Any],
    base: np.unsignedinteger[Any],
    inner: int,
    lanes: Bits,
    found: Bits,
) -> None:
    """Raise ``found`` to the greatest ``(key ^ flip) + base`` of each channel.

    Args:
        bits: (batch, entries), each with channels of its own.
        magnitude: as for all kernels.
        flip: 0, or all ones to turn the order around.
        base: added at last, and wraps around.
        inner: as of `add_powers`.
        lanes: as of `add_powers`, in the type of the bits.
        found: (batch, channels).
    """
    as_key = bits.dtype.type
    for batch in range(bits.shape[0]):
        entries, greatest = bits[batch], found[batch]
        lanes[:] = 0
        whole = entries.size // lanes.size * lanes.size
        rows, rest = entries[:whole].reshape(-1, lanes.size), entries[whole:]
        fours = rows.shape[0] // 4
        for i in range(fours):  # four at once, to load and store the lanes less
            a, b, c, d = rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]
            for j in range(lanes.size):
                one = max(
                    as_key(((a[j] & magnitude) ^ flip) + base),
                    as_key(((b[j] & magnitude) ^ flip) + base),
                )
                other = max(
                    as_key(((c[j] & magnitude) ^ flip) + base),
                    as_key(((d[j] & magnitude) ^ flip) + base),
                )
                lanes[j] = max(lanes[j], max(one, other))
        for i in range(4 * fours, rows.shape[0]):
            for j in range(lanes.size):
                lanes[j] = max(lanes[j], as_key(((rows[i, j] & magnitude) ^ flip) + base))
        for j in range(rest.size):
            lanes[j] = max(lanes[j], as_key(((rest[j] & magnitude) ^ flip) + base))
        channel = 0
        for first in range(0, lanes.size, inner):
            for lane in range(first, first + inner):
                greatest[channel] = max(greatest[channel], lanes[lane])
            channel = channel + 1 if channel + 1 < greatest.size else 0
