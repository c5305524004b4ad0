"""Amounts: of a text, of a step, of the targets that its patterns name, and of single ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from prune_gui.errors import RecipeError, one_line
from prune_gui.language import deferred, tr
from prune_gui.pruning.methods import Method, ScoredMethod
from prune_gui.pruning.methods.base import SHARED_RANKINGS, AllocatedMethod, UnitCounts
from prune_gui.pruning.methods.unstructured import L1UnstructuredMethod
from prune_gui.pruning.validation_messages import validation_message
from prune_gui.recipe.patterns import exact_pattern, patterns_for
from prune_gui.recipe.recipe import Step
from prune_gui.recipe.selector import Counts, ModuleTypes, Pattern, select

if TYPE_CHECKING:
    from prune_gui.checkpoint import TensorInfo
    from prune_gui.recipe.resolution import Resolution


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


MIN_DIGITS, MAX_DIGITS = 3, 16
"""Decimals of a share: tenths of a percent, and more than float64 has."""


def with_own_amount(
    amounts: Mapping[str, Amount] | None, name: str, amount: Amount | None
) -> dict[str, Amount] | None:
    """Return the amounts of a step by pattern, with another one for one target; None removes it."""
    pattern = exact_pattern(name)
    others = {other: value for other, value in (amounts or {}).items() if other != pattern}
    return (others | {pattern: amount} if amount is not None else others) or None


def takes_own_amount(resolution: Resolution, number: int, name: str) -> bool:
    """Return whether a step ranks a target by itself, so that it may have its own amount."""
    method = resolution.recipe.steps[number - 1].method
    return (
        method.takes_own_amounts
        and method.ranking_scope != "global"
        and name in resolution.outcomes[number - 1].pruned
    )


def amount_of_target(resolution: Resolution, number: int, name: str) -> Amount:
    """Return the amount that a step with an amount has for a target."""
    step, outcome = resolution.recipe.steps[number - 1], resolution.outcomes[number - 1]
    amount: Amount = outcome.amounts.get(name, dict(step.method)["amount"])
    return amount


def amount_for_share(resolution: Resolution, number: int, name: str, share: float) -> float:
    """Return the amount with which a step alone prunes a share of all elements of a target."""
    method = resolution.recipe.steps[number - 1].method
    remaining, total = remaining_before(resolution, number, name), resolution.counts[name][1]
    pruned, amount_for = round(max(share, 0.0) * total), method.with_one_amount(0.0).amount_for
    limit = amount_for(UnitCounts(remaining, remaining, total))
    return min(round(amount_for(UnitCounts(pruned, remaining, total)), MIN_DIGITS), limit)


def allocated(method: Method) -> AllocatedMethod:
    """Return a method that can have own amounts: the given one, or L1 with the same scores."""
    if isinstance(method, AllocatedMethod):
        return method
    fields = ScoredMethod.model_fields if isinstance(method, ScoredMethod) else ()
    return L1UnstructuredMethod.model_validate({name: getattr(method, name) for name in fields})


def remaining_before(resolution: Resolution, number: int, name: str) -> int:
    """Return how many elements of a parameter remained before a step, by its number from 1."""
    pruned, total = resolution.counts[name]
    later = sum(outcome.pruned.get(name, 0) for outcome in resolution.outcomes[number - 1 :])
    return total - pruned + later


def with_shares_of(resolution: Resolution, number: int, method: AllocatedMethod) -> Step:
    """Return a step that prunes the share of each target that another step prunes."""
    other, pruned = resolution.recipe.steps[number - 1], resolution.outcomes[number - 1].pruned
    if not pruned:
        raise RecipeError(
            "Step {number} prunes nothing, so it has no shares. Enable it.", number=number
        )
    amounts = {
        exact_pattern(name): _shortest_share(count, remaining_before(resolution, number, name))
        for name, count in pruned.items()
    }
    fields = {"amounts": amounts, "amount_of": "remaining", "max_sparsity": 1.0}
    scopes = {name: value for name, value in method if name in ("scope", "over")}
    fields |= {name: "local" for name, value in scopes.items() if value in SHARED_RANKINGS}
    tensors = resolution.checkpoint.tensors.values()
    return Step(
        method=method.model_copy(update=fields),
        targets=patterns_for(pruned, tensors),
        enabled=other.enabled,
    )


def _shortest_share(count: int, remaining: int) -> float:
    """Return the share with the fewest decimals that is `count` of `remaining` elements."""
    share = count / remaining if remaining else 0.0
    rounded = (round(share, digits) for digits in range(MIN_DIGITS, MAX_DIGITS))
    return next((short for short in rounded if round(short * remaining) == count), share)
