"""The compiled loops of `prune_gui.pruning.norms.channels`; what holds of `kernels` holds.

Entries are added up in *lanes* that lie side by side, one vector instruction for several: entry i
goes to lane ``i % lanes.size``, and each ``inner`` neighbouring lanes belong to one channel, after
the last of which comes the first again. After `BAND` entries a lane is added to the float64 sum of
its channel, so that float32 never adds up more. The order of all this depends on shapes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from prune_gui.pruning.kernels.compilation import compiled, compiled_within, overload, types

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prune_gui.pruning.kernels.keys import Bits

    Entries = NDArray[np.floating[Any]] | NDArray[np.uint16]
    """Floating-point numbers, or the bits of bfloat16 ones, which numpy does not know."""

F = TypeVar("F", bound="Callable[..., Any]")

LANES: Final = 64
"""Lanes of a single channel: all fit in a processor's registers."""
BAND: Final = 256
"""Entries per lane that are added up before the sum is made in float64."""

INVERSE_ROOT: Final = np.uint32(0x5F378100)
"""What the halved bits of a float32 are taken from, to be within 3.5 % of 1 / sqrt(x)."""
ROOT_OF: Final = tuple(
    np.float32(c) for c in (2.46107077, -3.28033218, 2.9495743, -1.40243684, 0.27212395)
)
"""1 / sqrt(t) by powers of t, within 2.4e-8 of it for t in [0.9336, 1.0711]: the polynomial of this
degree whose largest error is the smallest.
"""
FAINT: Final = 2.0**-36
"""Per entry: a smaller sum of roots is found in float64, since `_by_products` is up to 2^-62 off
where an entry is so small that it has not all its bits.
"""

NON_ZEROS: Final = 0
ROOTS: Final = 1
VALUES: Final = 2
SQUARES: Final = 3
CUBES: Final = 4


def _value(entry: Any) -> Any:  # noqa: ANN401 - known to the compiler only
    """Return the absolute value of an entry, in float32 or better."""


def _means(function: Callable[..., Any], **options: set[str]) -> Callable[[F], F]:
    """Say that what follows compiles a function, as the types of its arguments ask for."""
    how: Any = overload
    return cast("Callable[[F], F]", how(function, strict=False, jit_options=options))


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


def _by_products(entry: Any) -> Any:  # noqa: ANN401 - known to the compiler only
    """Return the root of a bfloat16 entry, within 2^-21 of it, by products; another's as `_root`.

    A processor has one place to take roots, which takes longer than memory takes to give entries of
    16 bits, while the multipliers stand idle. The bits of x, halved, are about those of its root;
    taken from a constant they are y, within 4 % of 1 / sqrt(x). With t = x y y, near 1, the root is
    x y / sqrt(t), and 1 / sqrt(t) is a polynomial.

    For an entry that is not finite, neither is the outcome; `FAINT` says when it is wrong.
    """


@_means(_by_products, fastmath={"contract"})
def _compile_by_products(entry: types.Type) -> Callable[..., Any]:
    if isinstance(entry, types.Float):
        return lambda entry: np.sqrt(abs(entry))
    c0, c1, c2, c3, c4 = ROOT_OF

    def by_products(entry: Any) -> Any:  # noqa: ANN401
        x = _value(entry)
        halved = np.float32(x).view(np.uint32) >> np.uint32(1)
        y = np.uint32(INVERSE_ROOT - np.uint32(halved)).view(np.float32)
        xy = x * y
        t = xy * y
        return xy * (c0 + t * (c1 + t * (c2 + t * (c3 + t * c4))))

    return by_products


def _adder(power: Callable[[Any], Any], beside: Callable[[Any], Any] | None = None) -> Any:  # noqa: ANN401
    """Return what adds the powers of a band of entries to the lanes.

    It takes eight rows at once, to load and store the lanes less. There is one for each power: of
    one for all, the compiler works out all powers and chooses.

    Args:
        power: of an entry.
        beside: for every other row of the eight; None: the same.
    """
    other = beside or power

    def add_band(band: Entries, lanes: NDArray[np.floating[Any]]) -> None:
        whole = band.size // lanes.size
        eights = whole // 8 * 8
        rows = band[: whole * lanes.size].reshape(-1, lanes.size)
        rest = band[whole * lanes.size :]
        for i in range(0, eights, 8):
            a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            e, f, g, h = rows[i + 4], rows[i + 5], rows[i + 6], rows[i + 7]
            for j in range(lanes.size):
                one = (power(a[j]) + other(b[j])) + (power(c[j]) + other(d[j]))
                two = (power(e[j]) + other(f[j])) + (power(g[j]) + other(h[j]))
                lanes[j] += one + two
        for i in range(eights, whole):
            for j in range(lanes.size):
                lanes[j] += power(rows[i, j])
        for j in range(rest.size):
            lanes[j] += power(rest[j])

    return compiled_within(add_band)


_add_ones = _adder(_one)
_add_roots = _adder(_root, beside=_by_products)
_add_values = _adder(_value)
_add_squares = _adder(_square)
_add_cubes = _adder(_cube)


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
    least = BAND * inner * FAINT if what == ROOTS else 0.0
    for start in range(0, entries.size, BAND * lanes.size):
        band = entries[start : start + BAND * lanes.size]
        lanes[:] = 0
        if what == NON_ZEROS:
            _add_ones(band, lanes)
        elif what == ROOTS:
            _add_roots(band, lanes)
        elif what == VALUES:
            _add_values(band, lanes)
        elif what == SQUARES:
            _add_squares(band, lanes)
        else:
            _add_cubes(band, lanes)
        channel = 0
        for first in range(0, lanes.size, inner):
            total = 0.0
            for lane in range(first, first + inner):
                total += lanes[lane]
            if not (total == 0 or least <= total < np.inf):
                total = _sum_in_double(band, what, first, inner, lanes.size)
            sums[channel] += total
            channel = channel + 1 if channel + 1 < sums.size else 0


@compiled
def _sum_in_double(band: Entries, what: int, first: int, inner: int, step: int) -> float:
    """Return the sum of the lanes of one channel, which float32 cannot hold."""
    total = 0.0
    for lane in range(first, first + inner):
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
