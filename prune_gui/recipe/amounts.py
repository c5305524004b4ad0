"""Several amounts, as a person writes them, and a step with another amount than its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from prune_gui.errors import RecipeError, one_line
from prune_gui.language import later, tr
from prune_gui.pruning.methods import Method
from prune_gui.pruning.validation_messages import validation_message

if TYPE_CHECKING:
    from prune_gui.recipe.step import Step

Amount = int | float
"""A whole number of units, or a share in [0, 1]."""

MOST: Final = 1000
"""Amounts in one text: each is a pass over the weights."""
LONGEST: Final = 10_000
"""Characters of such a text."""
NUMBER: Final = r"(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}) ?(%?)"
ONE: Final = re.compile(NUMBER)
RANGE: Final = re.compile(rf"{NUMBER} ?(?:to|-|–) ?{NUMBER} ?by ?{NUMBER}")  # noqa: RUF001
EXAMPLE: Final = later('Write amounts such as "10%, 20%, 30%" or "10% to 90% by 10%".')


def parse_amounts(text: str) -> tuple[Amount, ...]:
    """Return the amounts that a text lists, in its order, each once.

    ``10%`` and ``0.1`` are shares, ``8`` is a number of units. ``10% to 90% by 10%`` stands for all
    from the first up to the second; a sign for percent at one of the three is meant for all.

    Raises:
        ValueError: it lists none, or something else; says so in a sentence.
    """
    if len(text) > LONGEST:
        raise ValueError(_too_many())
    found: dict[str, Amount] = {}
    parts = (" ".join(part.split()) for part in re.split("[,;]", text.lower()))
    for part in filter(None, parts):
        for amount in _amounts(part):
            found[repr(amount)] = amount  # 1 is not 1.0
            if len(found) > MOST:
                raise ValueError(_too_many())
    if not found:
        raise ValueError(tr(EXAMPLE))
    return tuple(found.values())


def _too_many() -> str:
    return tr("These are more than {most:,} amounts. Take larger steps.", most=MOST)


def _amounts(part: str) -> Iterator[Amount]:
    if one := ONE.fullmatch(part):
        yield _amount(part, Fraction(one[1]), percent=bool(one[2]), whole="." not in one[1])
        return
    several = RANGE.fullmatch(part)
    if several is None:
        shown = one_line(part, 60)
        raise ValueError(tr("{part!r} is no amount. {example}", part=shown, example=tr(EXAMPLE)))
    first, last, by = (Fraction(several[i]) for i in (1, 3, 5))
    if by == 0:
        raise ValueError(tr("{part!r} never gets anywhere: the step after 'by' is 0.", part=part))
    if last - first > MOST * by:
        raise ValueError(_too_many())
    percent = any(several[i] for i in (2, 4, 6))
    whole = not any("." in several[i] for i in (1, 3, 5))
    while first <= last:
        yield _amount(part, first, percent=percent, whole=whole)
        first += by


def _amount(part: str, number: Fraction, *, percent: bool, whole: bool) -> Amount:
    if whole and not percent:
        return int(number)
    share = number / 100 if percent else number
    if share > 1:
        raise ValueError(
            tr("{part!r} is more than all. A share lies between 0 and 100%.", part=part)
        )
    return float(share)


def has_amount(method: Method) -> bool:
    """Tell whether a method is told how much to prune."""
    return "amount" in type(method).model_fields


def with_amount(step: Step, amount: Amount) -> Step:
    """Return a step that differs in its amount alone.

    Raises:
        RecipeError: its method takes no amount, or not this one.
    """
    method = step.method
    if not has_amount(method):
        raise RecipeError(
            tr("{method} takes no amount. Choose another step.", method=tr(method.title))
        )
    try:
        changed = type(method).model_validate({**method.model_dump(), "amount": amount})
    except ValidationError as error:
        raise RecipeError(
            tr(
                "{method} takes no amount of {amount}: {reason}.",
                method=tr(method.title),
                amount=amount,
                reason=validation_message(error.errors()[0]),
            )
        ) from error
    return step.model_copy(update={"method": changed})
