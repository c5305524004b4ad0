"""The states of the document that can be evaluated: the file, the stack, and each named state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from prune_gui.language import deferred
from prune_gui.recipe import Recipe

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation
    from prune_gui.session import Session

FILE: Final = deferred("File")
STACK: Final = deferred("Stack")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the evaluation of a recipe ended.

    Attributes:
        recipe: the recipe.
        evaluation: the result; None if it failed.
        error: why it failed, or "".
    """

    recipe: Recipe
    evaluation: Evaluation | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class StateRow:
    """A state, and what is known of its worth.

    Attributes:
        kind: what it is.
        name: the name of a named state; "" for others.
        recipe: its recipe.
        outcome: of this recipe, or of an earlier one of the stack; None if there is none.
        running: whether it is being evaluated.
    """

    kind: Literal["file", "stack", "named"]
    name: str
    recipe: Recipe
    outcome: Outcome | None = None
    running: bool = False

    @property
    def stale(self) -> bool:
        """Whether the outcome is that of an earlier stack."""
        return self.outcome is not None and self.outcome.recipe != self.recipe

    @property
    def evaluation(self) -> Evaluation | None:
        """The result; None if there is none."""
        return self.outcome.evaluation if self.outcome is not None else None


class StateResults:
    """The outcomes of recipes that are known for one checkpoint and one evaluator."""

    def __init__(self) -> None:
        self._known: list[Outcome] = []
        self._last_of_stack: Outcome | None = None
        self.running: Recipe | None = None

    def put(self, outcome: Outcome) -> None:
        """Add an outcome, in place of an earlier one of the same recipe."""
        self._known = [each for each in self._known if each.recipe != outcome.recipe]
        self._known.append(outcome)

    def get(self, recipe: Recipe) -> Outcome | None:
        """Return the outcome of a recipe; None if there is none."""
        return next((each for each in self._known if each.recipe == recipe), None)

    def rows(self, session: Session) -> tuple[StateRow, ...]:
        """Return a row for each state of a session."""
        rows = []
        for kind, name, recipe in _states(session):
            outcome = self.get(recipe)
            if kind == "stack":
                self._last_of_stack = outcome = outcome or self._last_of_stack
            rows.append(StateRow(kind, name, recipe, outcome, recipe == self.running))
        return tuple(rows)


def _states(
    session: Session,
) -> Iterator[tuple[Literal["file", "stack", "named"], str, Recipe]]:
    yield "file", "", Recipe()
    yield "stack", "", session.recipe
    for name, recipe in session.named_states.items():
        yield "named", name, recipe
