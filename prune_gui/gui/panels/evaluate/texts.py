"""Values of a metric as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prune_gui import number_formats
from prune_gui.language import format_number, tr

if TYPE_CHECKING:
    from prune_gui.recipe.amounts import Amount


def value_text(value: float) -> str:
    """Return a value with up to 6 significant digits; "" for NaN."""
    return "" if math.isnan(value) else format_number(value, ".6g")


def share_text(share: float) -> str:
    """Return a share of the dense value in percent; "" for NaN."""
    return "" if math.isnan(share) else tr("{percent:.1f} %", percent=100 * share)


def amount_text(amount: Amount) -> str:
    """Return the amount of a step: "50 %", or a number of units."""
    return number_formats.percent(amount) if isinstance(amount, float) else format_number(amount)
