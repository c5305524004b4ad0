"""What units emit if none of their weights remain, as expressions of their biases and norms.

Such a unit emits the same value whatever the input is. The layers that read the units are known
together with the expression of what they read, so that the value can be added to their biases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from prune_gui.architecture.tables import SpaceRule
from prune_gui.pruning.layouts import CoupledGroup

WEIGHT: Final = ".weight"
BIAS: Final = ".bias"


@dataclass(frozen=True, slots=True)
class Bias:
    """The values of a bias; zeros if it has no name."""

    name: str | None


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """A value after a batch norm in evaluation mode; None stands for ones, and for zeros."""

    value: Value
    weight: str | None
    bias: str | None
    mean: str
    variance: str


@dataclass(frozen=True, slots=True)
class Activation:
    """A value after an activation function, which is named as transformers names it."""

    value: Value
    function: str


@dataclass(frozen=True, slots=True)
class Pair:
    """The sum or the product of two values."""

    operation: Literal["sum", "product"]
    first: Value
    second: Value


Value = Bias | BatchNorm | Activation | Pair


def parts_of(value: Value) -> Iterator[Value]:
    """Yield an expression and all expressions in it."""
    yield value
    match value:
        case BatchNorm(inner) | Activation(inner):
            yield from parts_of(inner)
        case Pair(_, first, second):
            yield from parts_of(first)
            yield from parts_of(second)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a layer reads units; the padding of a kernel with zeros is in no file."""

    value: Value | None
    bias: str | None
    mean: str | None = None
    padded: bool = False


def activated(value: Value | None, function: str | None) -> Value | None:
    """Return a value after an activation function; None if one of them is not known."""
    if value is None or function is None:
        return None
    return Activation(value, function) if function else value


def readings_of_rule(
    group: CoupledGroup, rule: SpaceRule, function: str | None, names: Collection[str]
) -> dict[str, Reading]:
    """Return how layers of a table read f(b), or f(b) times the bias beside a gate."""
    value = _value_of_rule(group, rule, function)
    return {
        one.name: Reading(value, bias_of(one.name.removesuffix(WEIGHT), names))
        for one in group.members
        if one.role == "consumes"
    }


def _value_of_rule(group: CoupledGroup, rule: SpaceRule, function: str | None) -> Value | None:
    producers = {one.name.removesuffix(WEIGHT) for one in group.members if one.role == "produces"}
    gates = {path for path in producers if rule.gate and f".{path}".endswith(f".{rule.gate}")}
    others = producers - gates
    vectors = {one.name for one in group.members if one.role not in ("produces", "consumes")}
    if len(gates) != bool(rule.gate) or len(others) != 1:
        return None
    [first] = gates or others
    value = activated(Bias(bias_of(first, vectors)), function)
    used = {bias_of(path, vectors) for path in producers}
    if value is None or vectors != used - {None}:
        return None
    return Pair("product", value, Bias(bias_of(min(others), vectors))) if gates else value


def bias_of(path: str, names: Collection[str]) -> str | None:
    """Return the name of the bias of a module; None if it has none."""
    name = path + BIAS
    return name if name in names else None
