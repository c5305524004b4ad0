"""Powers of the absolute value of an element, which the loops of `kernels.norm_loops` call.

Elements are floating-point numbers, or the bits of bfloat16 numbers, which numpy does not have.
Compiled loops use the implementations in `kernels.compilation`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

NON_ZEROS: Final = 0
ROOTS: Final = 1
VALUES: Final = 2
SQUARES: Final = 3
CUBES: Final = 4


def value(element: Any) -> Any:  # noqa: ANN401 - of any floating-point type
    """Return the absolute value of an element, in float32 or wider."""
    if isinstance(element, np.uint16):
        return abs(np.uint32(np.uint32(element) << np.uint32(16)).view(np.float32))
    return abs(element)


def one(element: Any) -> Any:  # noqa: ANN401
    """Return 1, or 0 for an element of 0."""
    absolute = value(element)
    return type(absolute)(absolute != 0)


def root(element: Any) -> Any:  # noqa: ANN401
    """Return the square root."""
    return np.sqrt(value(element))


def root_by_products(element: Any) -> Any:  # noqa: ANN401
    """Return the square root; compiled for bfloat16, an approximation by multiplications only.

    The relative error of the approximation is at most 2^-21; for a non-finite element it is
    non-finite. A processor has a single unit for roots, which is slower than reading 16-bit
    elements from memory, while its multipliers are idle.
    """
    return root(element)


def square(element: Any) -> Any:  # noqa: ANN401
    """Return the second power."""
    absolute = value(element)
    return absolute * absolute


def cube(element: Any) -> Any:  # noqa: ANN401
    """Return the third power."""
    absolute = value(element)
    return absolute * absolute * absolute


def power_of_kind(element: Any, power_kind: int) -> Any:  # noqa: ANN401
    """Return the power of a kind."""
    if power_kind == NON_ZEROS:
        return one(element)
    if power_kind == ROOTS:
        return root(element)
    if power_kind == VALUES:
        return value(element)
    if power_kind == SQUARES:
        return square(element)
    return cube(element)
