"""The dialog that tells how a recipe fits another checkpoint, before it is used there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from prune_gui.errors import one_line
from prune_gui.gui import formatting
from prune_gui.gui.dialogs.result_table import Column, ResultModel, ResultTable
from prune_gui.gui.widgets.message import Message
from prune_gui.language import items, later, number, tr, trn
from prune_gui.recipe.recipe_match import StepMatch, match_recipe

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.recipe import Recipe

COLUMNS: Final[tuple[Column[StepMatch], ...]] = (
    Column(later("Step"), lambda row: number(row.number), lambda row: row.number),
    Column(
        later("Method"),
        lambda row: formatting.title(row.step),
        lambda row: formatting.title(row.step),
        is_number=False,
    ),
    Column(
        later("Parameters"),
        lambda row: number(len(row.targets)),
        lambda row: len(row.targets),
        tip=lambda row: _listed(row.targets),
    ),
    Column(
        later("Patterns that match nothing"),
        lambda row: ", ".join(row.unmatched),
        lambda row: ", ".join(row.unmatched) or None,
        is_number=False,
        tip=lambda row: "\n".join(map(one_line, row.unmatched)),
    ),
)
LISTED: Final = 20
"""Names of parameters in a tooltip."""


def _listed(names: Sequence[str]) -> str:
    more = len(names) - LISTED
    rest = [tr("and {more:,} more", more=more)] if more > 0 else []
    return "\n".join((*map(one_line, names[:LISTED]), *rest))


def summary(fits: Sequence[StepMatch]) -> tuple[str, bool]:
    """Return in a sentence or two how steps fit, and whether that is worth a warning."""
    if not fits:
        return tr("The recipe has no step that is switched on."), False
    lost = [one.number for one in fits if not one.targets]
    partly = [one.number for one in fits if one.targets and one.unmatched]
    parts = []
    if lost:
        parts.append(
            trn(
                "Step {steps} finds no parameter, and cannot be carried out until you edit that.",
                "Steps {steps} find no parameter, and cannot be carried out until you edit that.",
                len(lost),
                steps=_listed_numbers(lost),
            )
        )
    if partly:
        parts.append(
            trn(
                "Step {steps} finds no parameter for some of the patterns.",
                "Steps {steps} find no parameter for some of the patterns.",
                len(partly),
                steps=_listed_numbers(partly),
            )
        )
    return " ".join(parts) or tr("Every pattern of every step finds parameters."), bool(parts)


def _listed_numbers(numbers: Sequence[int]) -> str:
    *most, last = map(number, numbers)
    return tr(" and ").join(filter(None, (items(most), last)))


class RecipeMatchDialog(QDialog):
    """Shows how each step fits; accepting means to go on there.

    Args:
        recipe: to be used.
        checkpoint: on which.
        parent: the window.
    """

    def __init__(self, recipe: Recipe, checkpoint: Checkpoint, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Use the recipe on {name}?", name=one_line(checkpoint.path.name)))
        fits = match_recipe(recipe, checkpoint)
        self.model: ResultModel[StepMatch] = ResultModel(COLUMNS, self)
        self.model.show(fits)
        self.table = ResultTable(self.model, tr("Steps and what they match"), len(COLUMNS) - 1)
        self.message = Message()
        text, warning = summary(fits)
        self.message.say(text, warning=warning)
        standard = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
        buttons.button(standard.Ok).setText(tr("&Use it"))
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self.message)
        layout.addWidget(self.table, 1)
        layout.addWidget(buttons)
        self.resize(760, 320)
