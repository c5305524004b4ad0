"""Amounts: of a text, of a step, and of the targets that its patterns name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from prune_gui.errors import RecipeError, one_line
from prune_gui.language import deferred, tr
from prune_gui.pruning.methods import Method
from prune_gui.pruning.validation_messages import validation_message
from prune_gui.recipe.selector import Counts, ModuleTypes, Pattern, select

if TYPE_CHECKING:
    from prune_gui.checkpoint import TensorInfo
    from prune_gui.recipe.recipe import Step

Amount = int | float  # a whole number of units, or a share in [0, 1]

MAX_AMOUNTS: Final = 1000
"""Limit on the amounts in one text: each amount costs a pass over the weights."""
MAX_CHARACTERS: Final = 10_000  # limit on the length of the text
NUMBER: Final = r"(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}) ?(%?)"
SINGLE: Final = re.compile(NUMBER)
RANGE: Final = re.compile(rf"{NUMBER} ?(?:to|-|–) ?{NUMBER} ?by ?{NUMBER}")  # noqa: RUF001
EXAMPLE: Final = deferred('Write amounts such as "10%, 20%, 30%" or "10% to 90% by 10%".')


def parse_amounts(text: str) -> tuple[Amount, ...]:
    """Return the amounts that a text lists, in its order and without duplicates.

    ``10%`` and ``0.1`` are shares, ``8`` is a number of units. ``10% to 90% by 10%`` is the range
    to the second, both included; a percent sign at one number applies to all. A `ValueError` has a
    sentence for the user.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(_too_many())
    amounts: dict[str, Amount] = {}
    parts = (" ".join(part.split()) for part in re.split("[,;]", text.lower()))
    for part in filter(None, parts):
        for amount in _amounts(part):
            amounts[repr(amount)] = amount  # `repr` distinguishes 1 unit from the share 1.0
            if len(amounts) > MAX_AMOUNTS:
                raise ValueError(_too_many())
    if not amounts:
        raise ValueError(tr(EXAMPLE))
    return tuple(amounts.values())


def _too_many() -> str:
    return tr("There are more than {most:,} amounts. Use larger increments.", most=MAX_AMOUNTS)


def _amounts(part: str) -> Iterator[Amount]:
    if single := SINGLE.fullmatch(part):
        whole = "." not in single[1]
        yield _amount(part, Fraction(single[1]), percent=bool(single[2]), whole=whole)
        return
    range_match = RANGE.fullmatch(part)
    if range_match is None:
        shown = one_line(part, 60)
        raise ValueError(
            tr("{part!r} is not an amount. {example}", part=shown, example=tr(EXAMPLE))
        )
    first, last, by = (Fraction(range_match[i]) for i in (1, 3, 5))
    if by == 0:
        raise ValueError(tr("{part!r} is invalid: the increment after 'by' is 0.", part=part))
    if last - first > MAX_AMOUNTS * by:
        raise ValueError(_too_many())
    percent = any(range_match[i] for i in (2, 4, 6))
    whole = not any("." in range_match[i] for i in (1, 3, 5))
    while first <= last:
        yield _amount(part, first, percent=percent, whole=whole)
        first += by


def _amount(part: str, number: Fraction, *, percent: bool, whole: bool) -> Amount:
    if whole and not percent:
        return int(number)
    share = number / 100 if percent else number
    if share > 1:
        raise ValueError(
            tr("{part!r} is more than 100%. A share lies between 0 and 100%.", part=part)
        )
    return float(share)


def parse_share(text: str) -> float:
    """Return the share that a text states: "90 %", "90" and "0.9" are 0.9, "0.9 %" is 0.009.

    Without a percent sign, a share has decimals and is at most 1. Raises `ValueError` for no
    number.
    """
    match = SINGLE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    number = Fraction(match[1])
    is_share = not match[2] and bool(match[1].partition(".")[2]) and number <= 1
    return float(number if is_share else number / 100)


def has_amount(method: Method) -> bool:
    """Return whether a method has the parameter `amount`, and uses it."""
    return dict(method).get("amount") is not None


def with_amount(step: Step, amount: Amount) -> Step:
    """Return a copy of a step with another amount."""
    method = step.method
    if not has_amount(method):
        raise RecipeError("{method} has no amount. Choose another step.", method=tr(method.title))
    try:
        changed = type(method).model_validate({**method.model_dump(), "amount": amount})
    except ValidationError as error:
        raise RecipeError(
            "{method} does not accept the amount {amount}: {reason}.",
            method=tr(method.title),
            amount=amount,
            reason=validation_message(error.errors()[0]),
        ) from error
    return step.model_copy(update={"method": changed})


def amounts_by_target(
    amounts: Mapping[str, Amount],
    targets: Sequence[TensorInfo],
    counts: Counts,
    module_types: Callable[[], ModuleTypes],
) -> tuple[dict[str, Amount], list[str]]:
    """Return the amounts of targets by name, of the last pattern, and the patterns without any."""
    by_name = {name: info for info in targets for name in (info.name, *info.aliases)}
    found: dict[str, Amount] = {}
    unmatched = []
    for pattern, amount in amounts.items():
        name = Pattern.parse(pattern).exact_name
        candidates = targets if name is None else [by_name[name]] if name in by_name else []
        matching = select([pattern], candidates, counts, module_types, every_kind=True)
        found |= dict.fromkeys((info.name for info in matching), amount)
        if not matching:
            unmatched.append(pattern)
    return found, unmatched


def grouped_by_amount(
    method: Method, names: Iterable[str], amounts: Mapping[str, Amount]
) -> list[tuple[Method, list[str]]]:
    """Return methods with one amount each, and the names of the targets that each is for."""
    groups: dict[str, tuple[Amount, list[str]]] = {}
    for name in names:
        amount = amounts.get(name, dict(method)["amount"])
        groups.setdefault(repr(amount), (amount, []))[1].append(name)  # `repr`: 1 is not 1.0
    return [(method.with_one_amount(amount), members) for amount, members in groups.values()]
