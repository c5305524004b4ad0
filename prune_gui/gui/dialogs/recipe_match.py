"""The dialog that shows how a recipe matches another checkpoint, before it is used there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QWidget

from prune_gui.errors import one_line
from prune_gui.gui import formatting
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.table_widgets import RecordModel, ResultTable, number_column, text_column
from prune_gui.language import deferred, format_number, tr
from prune_gui.recipe.patterns import StepMatch, match_recipe
from prune_gui.table import Column, record_column

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.recipe import Recipe

COLUMNS: Final[tuple[Column[Sequence[StepMatch]], ...]] = (
    number_column(deferred("Step"), lambda row: row.number),
    text_column(deferred("Method"), lambda row: formatting.title(row.step)),
    record_column(
        deferred("Parameters"),
        lambda row: format_number(len(row.targets)),
        lambda row: len(row.targets),
        cell_tip=lambda row: _name_lines(row.targets),
    ),
    record_column(
        deferred("Patterns that match nothing"),
        lambda row: ", ".join(row.unmatched),
        lambda row: ", ".join(row.unmatched) or None,
        is_number=False,
        cell_tip=lambda row: "\n".join(map(one_line, row.unmatched)),
    ),
)
MAX_LISTED_NAMES: Final = 20
"""Limit of the parameter names in a tool tip."""


def _name_lines(names: Sequence[str]) -> str:
    more = len(names) - MAX_LISTED_NAMES
    rest = [tr("and {more:,} more", more=more)] if more > 0 else []
    return "\n".join((*map(one_line, names[:MAX_LISTED_NAMES]), *rest))


def summary(matches: Sequence[StepMatch]) -> tuple[str, bool]:
    """Return how the steps in the table match, and whether that is a warning."""
    if not matches:
        return tr("The recipe has no step that is switched on."), False
    if not all(step.targets for step in matches):
        return tr("Steps with 0 parameters need other targets before they are applied."), True
    if any(step.unmatched for step in matches):
        return tr("Some patterns match no parameter."), True
    return tr("Every pattern of every step matches parameters."), False


class RecipeMatchDialog(QDialog):
    """Shows how each step matches the checkpoint; accepted if the user wants to switch to it."""

    def __init__(self, recipe: Recipe, checkpoint: Checkpoint, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Use the recipe on {name}?", name=one_line(checkpoint.path.name)))
        matches = match_recipe(recipe, checkpoint)
        self.model: RecordModel[StepMatch] = RecordModel(COLUMNS)
        self.model.show(matches)
        self.table = ResultTable(self.model, tr("Steps and what they match"), len(COLUMNS) - 1)
        self.message = Message()
        text, warning = summary(matches)
        self.message.say(text, warning=warning)
        standard = QDialogButtonBox.StandardButton
        buttons = layouts.dialog_buttons(self, standard.Ok | standard.Cancel)
        buttons.button(standard.Ok).setText(tr("&Use it"))
        layouts.column(self.message, (self.table, 1), buttons, of=self)
        self.resize(760, 320)
