"""The compiled loops of `prune_gui.pruning.norms.unit_norms`; see `kernels.key_loops`.

Elements are summed in adjacent *lanes*, several per vector instruction: element i is added to lane
``i % lanes.size``. Each run of ``inner`` lanes belongs to one channel; after the last channel the
first follows again. A lane sums at most `BAND` elements in float32; then it is added to the float64
sum of its channel. The order of the additions depends on shapes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.pruning.arrays import Bits, Key, Numbers, Values
from prune_gui.pruning.kernels.loop import compiled, compiled_within
from prune_gui.pruning.kernels.powers import (
    NON_ZEROS,
    ROOTS,
    SQUARES,
    VALUES,
    cube,
    one,
    power_of_kind,
    root,
    root_by_products,
    square,
    value,
)

Elements = Values | NDArray[np.uint16]
"""Floating-point numbers, or the bits of bfloat16 numbers, a type that numpy does not have."""

LANES: Final = 64
"""Lanes of a single channel: all fit in the vector registers of a processor."""
BAND: Final = 256
"""Elements per lane that are summed in float32 before the lane is added to a float64 sum."""

MIN_ROOT_MEAN: Final = 2.0**-36
"""A sum of roots below this times its number of elements is computed again in float64, because
`root_by_products` has an error of up to 2^-62 for subnormal elements.
"""


def _adder(power: Callable[[Any], Any], alternate: Callable[[Any], Any] | None = None) -> Any:  # noqa: ANN401
    """Return a compiled function that adds the powers of a band of elements to the lanes.

    It adds eight rows at once, so that lanes are loaded and stored less often. Each power has its
    own function: in a common one, the compiler would compute all powers and select one.
    """
    other = alternate or power

    def add_band(band: Elements, lanes: Values) -> None:
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


_add_ones = _adder(one)
_add_roots = _adder(root, alternate=root_by_products)
_add_values = _adder(value)
_add_squares = _adder(square)
_add_cubes = _adder(cube)


@compiled
def add_powers(
    elements: Elements, power_kind: int, inner: int, lanes: Values, sums: Numbers
) -> None:
    """Add the powers of the elements of each channel to its sum.

    ``elements`` have the shape (batch, elements), where each row has channels of its own; ``sums``
    (batch, channels).
    """
    for batch in range(elements.shape[0]):
        _add_powers(elements[batch], power_kind, inner, lanes, sums[batch])


@compiled
def _add_powers(
    elements: Elements, power_kind: int, inner: int, lanes: Values, sums: Numbers
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
    total = 0.0
    for lane in range(first, first + inner):
        for i in range(lane, band.size, step):
            total += power_of_kind(np.float64(value(band[i])), power_kind)
    return total


@compiled
def find_maxima(
    bits: Bits, magnitude: Key, flip: Key, base: Key, inner: int, lanes: Bits, maxima: Bits
) -> None:
    """Set ``maxima`` to the maximum of its value and ``(key ^ flip) + base`` in each channel."""
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
