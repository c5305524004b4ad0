"""Amounts: validation, and conversion to a number of units."""

from __future__ import annotations

import math
import numbers
from typing import Literal

Amount = int | float
"""A whole number of units, or a share in [0, 1]. 1 is one unit, 1.0 is all units."""

AmountOf = Literal["remaining", "total", "reach"]
"""The base of a share, see `units_wanted`."""


def units_wanted(amount: Amount, amount_of: AmountOf, *, remaining: int, total: int) -> int:
    """Return how many more units a step prunes, even if fewer remain; the amount is valid."""
    units = _compute_nparams_toprune(amount, remaining if amount_of == "remaining" else total)
    return max(0, units - (total - remaining)) if amount_of == "reach" else units


def _validate_pruning_amount_init(amount: Amount) -> None:
    """Check an amount before the number of units is known; unlike torch, NaN and booleans too."""
    if isinstance(amount, bool) or not isinstance(amount, numbers.Real):
        raise TypeError(f"amount={amount!r} is not a number; use a share in [0, 1] or an integer.")
    if isinstance(amount, numbers.Integral):
        if amount < 0:
            raise ValueError(f"amount={amount} is negative; a number of units starts at 0.")
    elif math.isnan(amount) or not 0 <= amount <= 1:
        raise ValueError(
            f"amount={amount} is no share; use a float in [0, 1], or an integer for a number "
            "of units."
        )


def _validate_pruning_amount(amount: Amount, tensor_size: int) -> None:
    """Check that at least `amount` units remain, if it is a whole number."""
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"Cannot prune {amount} units: only {tensor_size} remain.")


def _compute_nparams_toprune(amount: Amount, tensor_size: int) -> int:
    """Return `amount` as a number of units; a share is rounded, half to even."""
    if isinstance(amount, numbers.Integral):
        return int(amount)
    return round(float(amount) * tensor_size)
