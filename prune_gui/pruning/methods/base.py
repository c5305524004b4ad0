"""What every method of a recipe has in common.

A method is one frozen model: its typed parameters are its fields, and `decide` turns them into a
predicate per parameter. The recipe's validation, the window's form and ``prune-gui methods`` are
made from the fields, so a new method is one class, named in `prune_gui.pruning.methods`.

Nothing here imports torch until a method decides: the form must not wait for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictFloat, StrictInt

from prune_gui.errors import RecipeError
from prune_gui.pruning.amount import AmountOf, units_to_prune

if TYPE_CHECKING:
    import torch

    from prune_gui.monitor import Monitor
    from prune_gui.pruning.keys import Alive
    from prune_gui.pruning.predicate import Predicate


def _within_range(amount: int | float) -> int | float:
    if isinstance(amount, float) and not 0.0 <= amount <= 1.0:
        raise ValueError("a share must lie between 0.0 and 1.0; write a whole number for a count")
    if amount < 0:
        raise ValueError("a number of units cannot be negative")
    return amount


Amount = Annotated[
    StrictInt | StrictFloat,
    AfterValidator(_within_range),
    Field(description="A share between 0.0 and 1.0, or a whole number of units."),
]
Scope = Annotated[
    Literal["local", "global"],
    Field(description="local: each parameter by itself; global: all targets as one."),
]
Of = Annotated[
    AmountOf,
    Field(
        description="A share of what remains (as torch does), of the total, or a total to reach."
    ),
]
Dim = Annotated[
    StrictInt,
    Field(description="The dimension whose channels are pruned; 0 is the output channels."),
]
Seed = Annotated[
    StrictInt,
    Field(description="The same seed prunes the same entries, on any machine."),
]
Importance = Annotated[
    str | None,
    Field(
        description="A file of scores, one tensor per parameter name, ranked by absolute value "
        "in place of the weights.",
        json_schema_extra={"format": "path"},
    ),
]


Content = Literal["scores", "mask"]
"""What a tensor in another file is to a method."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parameter as a step finds it.

    Attributes:
        name: as the checkpoint names it.
        shape: of the parameter.
        remaining: entries that no earlier step pruned.
        read: gives the weights, memory-mapped where the file allows.
        read_from: gives what reads the tensor of this parameter's name and shape in another file.
        alive: where entries are still there; None if all are.
    """

    name: str
    shape: tuple[int, ...]
    remaining: int
    read: Callable[[], torch.Tensor]
    read_from: Callable[[str, Content], Callable[[], torch.Tensor]]
    alive: Alive | None

    def scores(self, importance: str | None) -> Callable[[], torch.Tensor]:
        """Return what reads the scores: the weights, or the tensor of that name in a file."""
        return self.read if importance is None else self.read_from(importance, "scores")


@dataclass(frozen=True, slots=True)
class Decision:
    """What a step does to one parameter.

    Attributes:
        predicate: the entries it prunes; None where it prunes nothing.
        pruned: how many entries that were still there it prunes.
        note: what a person should know about it, or "".
    """

    predicate: Predicate | None
    pruned: int
    note: str = ""


class Method(BaseModel):
    """One way of choosing what to prune. Subclasses add typed parameters and `decide`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    """In recipes and on the command line; torch's name where torch has the method."""
    title: ClassVar[str]
    """In the window."""
    unit: ClassVar[Literal["entry", "channel"]]
    """What an amount counts."""

    @abstractmethod
    def decide(self, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
        """Decide what to prune of each target: a pure function of the targets.

        Raises:
            RecipeError: the method cannot do this to a target; the message names it.
            Cancelled: the monitor said so.
        """


def count_units(
    amount: int | float, amount_of: AmountOf, *, remaining: int, total: int, of: str
) -> int:
    """Return how many units to prune.

    Raises:
        RecipeError: more than remain; the message names `of`.
    """
    try:
        return units_to_prune(amount, amount_of, remaining=remaining, total=total)
    except ValueError as error:
        raise RecipeError(f"{of}: {error}") from error
