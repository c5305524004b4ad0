"""The compiled loops of `prune_gui.pruning.norms.channels`; see `kernels.keys`.

Elements are summed in adjacent *lanes*, several per vector instruction: element i is added to lane
``i % lanes.size``. Each run of ``inner`` lanes belongs to one channel; after the last channel the
first follows again. A lane sums at most `BAND` elements in float32; then it is added to the float64
sum of its channel. The order of the additions depends on shapes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from prune_gui.pruning.kernels.compilation import (
    compiled,
    compiled_within,
    overload,
    register_jitable,
    types,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from prune_gui.pruning.kernels.keys import Bits

    Elements = NDArray[np.floating[Any]] | NDArray[np.uint16]
    """Floating-point numbers, or the bits of bfloat16 numbers, a type that numpy does not have."""

F = TypeVar("F", bound="Callable[..., Any]")

LANES: Final = 64
"""Lanes of a single channel: all fit in the vector registers of a processor."""
BAND: Final = 256
"""Elements per lane that are summed in float32 before the lane is added to a float64 sum."""

INVERSE_ROOT_BITS: Final = np.uint32(0x5F378100)
"""Minus the halved bits of a float32 x, these are the bits of 1 / sqrt(x) within 3.5 %."""
INVERSE_ROOT_COEFFICIENTS: Final = tuple(
    np.float32(c) for c in (2.46107077, -3.28033218, 2.9495743, -1.40243684, 0.27212395)
)
"""Of the minimax polynomial of 1 / sqrt(t), lowest power first.

Its error is at most 2.4e-8 for t in [0.9336, 1.0711].
"""
MIN_ROOT_MEAN: Final = 2.0**-36
"""A sum of roots below this times its number of elements is computed again in float64, because
`_root_by_products` has an error of up to 2^-62 for subnormal elements.
"""

NON_ZEROS: Final = 0
ROOTS: Final = 1
VALUES: Final = 2
SQUARES: Final = 3
CUBES: Final = 4


def _inlined(function: F) -> F:
    """Let compiled loops call a function of one element, which Python calls as it is."""
    return register_jitable(function)


def _value(element: Any) -> Any:  # noqa: ANN401 - only the compiler knows the type
    """Return the absolute value of an element, in float32 or wider."""
    if isinstance(element, np.uint16):
        return abs(np.uint32(np.uint32(element) << np.uint32(16)).view(np.float32))
    return abs(element)


def _implements(function: Callable[..., Any], **options: set[str]) -> Callable[[F], F]:
    """Return a decorator for a function that returns an implementation for argument types."""
    untyped_overload: Any = overload
    return cast("Callable[[F], F]", untyped_overload(function, strict=False, jit_options=options))


@_implements(_value)
def _compile_value(element: types.Type) -> Callable[..., Any]:
    if isinstance(element, types.Float):
        return lambda element: abs(element)
    return lambda element: abs(np.uint32(np.uint32(element) << np.uint32(16)).view(np.float32))


@_inlined
def _one(element: Any) -> Any:  # noqa: ANN401
    value = _value(element)
    return type(value)(value != 0)


@_inlined
def _root(element: Any) -> Any:  # noqa: ANN401
    return np.sqrt(_value(element))


@_inlined
def _square(element: Any) -> Any:  # noqa: ANN401
    value = _value(element)
    return value * value


@_inlined
def _cube(element: Any) -> Any:  # noqa: ANN401
    value = _value(element)
    return value * value * value


@_inlined
def _power(element: Any, power_kind: int) -> Any:  # noqa: ANN401
    if power_kind == NON_ZEROS:
        return _one(element)
    if power_kind == ROOTS:
        return _root(element)
    if power_kind == VALUES:
        return _value(element)
    if power_kind == SQUARES:
        return _square(element)
    return _cube(element)


def _root_by_products(element: Any) -> Any:  # noqa: ANN401 - only the compiler knows the type
    """Return the root of a bfloat16 element by multiplications only; other types as `_root`.

    The relative error is at most 2^-21. A processor has a single unit for roots, which is slower
    than reading 16-bit elements from memory, while its multipliers are idle. A constant minus the
    halved bits of x gives the bits of y, within 4 % of 1 / sqrt(x). With t = x y y, near 1, the
    root is x y / sqrt(t), and a polynomial gives 1 / sqrt(t).

    The result for a non-finite element is non-finite. `MIN_ROOT_MEAN` covers subnormal elements.
    """


@_implements(_root_by_products, fastmath={"contract"})
def _compile_root_by_products(element: types.Type) -> Callable[..., Any]:
    if isinstance(element, types.Float):
        return lambda element: np.sqrt(abs(element))
    c0, c1, c2, c3, c4 = INVERSE_ROOT_COEFFICIENTS

    def by_products(element: Any) -> Any:  # noqa: ANN401
        x = _value(element)
        halved = np.float32(x).view(np.uint32) >> np.uint32(1)
        y = np.uint32(INVERSE_ROOT_BITS - np.uint32(halved)).view(np.float32)
        xy = x * y
        t = xy * y
        return xy * (c0 + t * (c1 + t * (c2 + t * (c3 + t * c4))))

    return by_products


def _adder(power: Callable[[Any], Any], alternate: Callable[[Any], Any] | None = None) -> Any:  # noqa: ANN401
    """Return a compiled function that adds the powers of a band of elements to the lanes.

    It adds eight rows at once, so that lanes are loaded and stored less often. Each power has its
    own function: in a common one, the compiler would compute all powers and select one.

    Args:
        power: returns the power of an element.
        alternate: used for every second of the eight rows; None for `power`.
    """
    other = alternate or power

    def add_band(band: Elements, lanes: NDArray[np.floating[Any]]) -> None:
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

    # A compiled root by products has other roundings than an interpreted one.
    return compiled_within(add_band, interpretable=alternate is None)


_add_ones = _adder(_one)
_add_roots = _adder(_root, alternate=_root_by_products)
_add_values = _adder(_value)
_add_squares = _adder(_square)
_add_cubes = _adder(_cube)


@compiled
def add_powers(
    elements: Elements,
    power_kind: int,
    inner: int,
    lanes: NDArray[np.floating[Any]],
    sums: NDArray[np.float64],
) -> None:
    """Add the powers of the elements of each channel to its sum.

    Args:
        elements: shape (batch, elements); each row has channels of its own.
        power_kind: `NON_ZEROS`, `ROOTS`, `VALUES`, `SQUARES` or `CUBES`.
        inner: number of consecutive elements of one channel.
        lanes: a buffer for whole channels, or a part of a single one, in the type of the sums.
        sums: shape (batch, channels).
    """
    for batch in range(elements.shape[0]):
        _add_powers(elements[batch], power_kind, inner, lanes, sums[batch])


@compiled
def _add_powers(
    elements: Elements,
    power_kind: int,
    inner: int,
    lanes: NDArray[np.floating[Any]],
    sums: NDArray[np.float64],
) -> None:
    min_sum = BAND * inner * MIN_ROOT_MEAN if power_kind == ROOTS else 0.0
    for start in range(0, elements.size, BAND * lanes.size):
        band = elements[start : start + BAND * lanes.size]
        lanes[:] = 0
        if power_kind == NON_ZEROS:
            _add_ones(band, lanes)
        elif power_kind == ROOTS:
            _add_roots(band, lanes)
        elif power_kind == VALUES:
            _add_values(band, lanes)
        elif power_kind == SQUARES:
            _add_squares(band, lanes)
        else:
            _add_cubes(band, lanes)
        channel = 0
        for first in range(0, lanes.size, inner):
            total = 0.0
            for lane in range(first, first + inner):
                total += np.float64(lanes[lane])
            if not (total == 0 or min_sum <= total < np.inf):
                total = _sum_in_float64(band, power_kind, first, inner, lanes.size)
            sums[channel] += total
            channel = channel + 1 if channel + 1 < sums.size else 0


@compiled
def _sum_in_float64(band: Elements, power_kind: int, first: int, inner: int, step: int) -> float:
    """Return the sum over the lanes of one channel, computed in float64."""
    total = 0.0
    for lane in range(first, first + inner):
        for i in range(lane, band.size, step):
            total += _power(np.float64(_value(band[i])), power_kind)
    return total


@compiled
def find_maxima(
    bits: Bits,
    magnitude: np.unsignedinteger[Any],
    flip: np.unsignedinteger[Any],
    base: np.unsignedinteger[Any],
    inner: int,
    lanes: Bits,
    maxima: Bits,
) -> None:
    """Set ``maxima`` to the maximum of its value and ``(key ^ flip) + base`` in each channel.

    Args:
        bits: shape (batch, elements); each row has channels of its own.
        magnitude: as for all kernels.
        flip: 0, or all ones to reverse the order.
        base: added last; the sum wraps around.
        inner: as in `add_powers`.
        lanes: as in `add_powers`, in the type of the bits.
        maxima: shape (batch, channels).
    """
    as_key = bits.dtype.type
    for batch in range(bits.shape[0]):
        row, row_maxima = bits[batch], maxima[batch]
        lanes[:] = 0
        whole = row.size // lanes.size * lanes.size
        rows, rest = row[:whole].reshape(-1, lanes.size), row[whole:]
        fours = rows.shape[0] // 4
        for i in range(fours):  # four rows at once: lanes are loaded and stored less often
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
                row_maxima[channel] = max(row_maxima[channel], lanes[lane])
            channel = channel + 1 if channel + 1 < row_maxima.size else 0
