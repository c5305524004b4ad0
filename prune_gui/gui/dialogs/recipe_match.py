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
from prune_gui.language import deferred, format_number, join_items, tr, trn
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
    """Return how steps match, in at most two sentences, and whether that is a warning."""
    if not matches:
        return tr("The recipe has no step that is switched on."), False
    unmatched = [step.number for step in matches if not step.targets]
    partly = [step.number for step in matches if step.targets and step.unmatched]
    sentences = []
    if unmatched:
        sentences.append(
            trn(
                "Step {steps} matches no parameter. Edit its targets before applying it.",
                "Steps {steps} match no parameter. Edit their targets before applying them.",
                len(unmatched),
                steps=_number_list(unmatched),
            )
        )
    if partly:
        sentences.append(
            trn(
                "Some patterns of step {steps} match no parameter.",
                "Some patterns of steps {steps} match no parameter.",
                len(partly),
                steps=_number_list(partly),
            )
        )
    text = " ".join(sentences) or tr("Every pattern of every step matches parameters.")
    return text, bool(sentences)


def _number_list(numbers: Sequence[int]) -> str:
    *others, last = map(format_number, numbers)
    return tr(" and ").join(filter(None, (join_items(others), last)))


class RecipeMatchDialog(QDialog):
    """Shows how each step matches the checkpoint; accepted if the user wants to switch to it."""

    def __init__(self, recipe: Recipe, checkpoint: Checkpoint, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Use the recipe on {name}?", name=one_line(checkpoint.path.name)))
        matches = match_recipe(recipe, checkpoint)
        self.model: RecordModel[StepMatch] = RecordModel(COLUMNS, self)
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
