"""The implementations of `kernels.powers` in compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from prune_gui.pruning.kernels import powers
from prune_gui.pruning.kernels.numba_api import overload, register_jitable, types

INVERSE_ROOT_BITS: Final = np.uint32(0x5F378100)
"""Minus the halved bits of a float32 x, these are the bits of 1 / sqrt(x) within 3.5 %."""
INVERSE_ROOT_COEFFICIENTS: Final = tuple(
    np.float32(c) for c in (2.46107077, -3.28033218, 2.9495743, -1.40243684, 0.27212395)
)
"""Of the minimax polynomial of 1 / sqrt(t), lowest power first.

Its error is at most 2.4e-8 for t in [0.9336, 1.0711].
"""


def implement_powers() -> None:
    """Let compiled loops call the functions of `kernels.powers`."""
    _implement(powers.value, _value)
    _implement(powers.root_by_products, _root_by_products, fastmath={"contract"})
    for function in (powers.one, powers.root, powers.square, powers.cube, powers.power_of_kind):
        register_jitable(function)


def _implement(
    function: Callable[..., Any], choose: Callable[..., Any], **options: set[str]
) -> None:
    """Compile what `choose` returns for the type of an argument in place of a function."""
    untyped_overload: Any = overload
    untyped_overload(function, strict=False, jit_options=options)(choose)


def _value(element: types.Type) -> Callable[..., Any]:
    if isinstance(element, types.Float):
        return lambda element: abs(element)
    return lambda element: abs(np.uint32(np.uint32(element) << np.uint32(16)).view(np.float32))


def _root_by_products(element: types.Type) -> Callable[..., Any]:
    """Return an implementation of the root.

    A constant minus the halved bits of x gives the bits of y, within 4 % of 1 / sqrt(x). With
    t = x y y, near 1, the root is x y / sqrt(t), and a polynomial gives 1 / sqrt(t).
    `kernels.norms.MIN_ROOT_MEAN` covers subnormal elements.
    """
    if isinstance(element, types.Float):
        return lambda element: np.sqrt(abs(element))
    c0, c1, c2, c3, c4 = INVERSE_ROOT_COEFFICIENTS

    def by_products(element: Any) -> Any:  # noqa: ANN401 - only the compiler knows the type
        x = powers.value(element)
        halved = np.float32(x).view(np.uint32) >> np.uint32(1)
        y = np.uint32(INVERSE_ROOT_BITS - np.uint32(halved)).view(np.float32)
        xy = x * y
        t = xy * y
        return xy * (c0 + t * (c1 + t * (c2 + t * (c3 + t * c4))))

    return by_products
