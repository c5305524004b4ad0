"""The amounts of single targets of a resolved step, and as patterns for another step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from prune_gui.errors import RecipeError
from prune_gui.pruning.methods import Method, ScoredMethod
from prune_gui.pruning.methods.base import SHARED_RANKINGS, AllocatedMethod, UnitCounts
from prune_gui.pruning.methods.unstructured import L1UnstructuredMethod
from prune_gui.recipe.amounts import Amount
from prune_gui.recipe.patterns import exact_pattern, patterns_for
from prune_gui.recipe.recipe import Step

if TYPE_CHECKING:
    from prune_gui.recipe.resolution import Resolution

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
