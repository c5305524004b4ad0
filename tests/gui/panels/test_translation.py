"""Everything that a panel shows can be translated."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from gettext import NullTranslations
from itertools import count, takewhile
from pathlib import Path

import pytest
from PySide6.QtCore import QAbstractItemModel, QModelIndex, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenu,
    QWidget,
)

from prune_gui import language
from prune_gui.gui.log_feed import Entry
from prune_gui.gui.panels import wording
from prune_gui.gui.panels.draft_panel import DraftPanel
from prune_gui.gui.panels.history_panel import HistoryPanel
from prune_gui.gui.panels.log_panel import LogPanel
from prune_gui.gui.panels.stack_model import StepRole
from prune_gui.gui.panels.stack_panel import StackPanel
from prune_gui.gui.panels.tree_panel import TreePanel
from prune_gui.pruning.methods import METHODS

Role = Qt.ItemDataRole
ROOT = QModelIndex()
ROLES = (Role.DisplayRole, Role.ToolTipRole, Role.AccessibleTextRole, StepRole.OUTCOME)
WORDS = re.compile(r"[^\W\d_]\w*")
RECIPE = {"inf", "fro", "nuc", "x", "encoder", "weight", "bias", "nothing"}
"""What recipes say, an example of targets, and steps of this test."""
OTHERS = {
    "l1_unstructured": {"amount": 0.3, "scope": "row", "amount_of": "total", "max_sparsity": 0.9},
    "ln_structured": {"amount": 1, "scope": "global", "amount_of": "reach", "dim": 1, "n": "inf"},
    "lamp": {"amount": 0.7, "max_sparsity": 0.9, "importance": "/1/2"},
    "erk": {"amount": 3, "moved_from": "/1/2"},
    "threshold": {"value": 0.5, "relative_to": "std"},
    "n_m": {"n": 1, "m": 8, "dim": 0, "flatten": False, "tail": "keep"},
    "block": {"amount": 7, "n": 1, "tail": "keep"},
    "channels": {"channels": (1, 2, 3)},
    "random_unstructured": {"amount": 1, "seed": 3},
    "random_structured": {"amount": 0.5, "seed": 3},
    "custom_from_mask": {"mask": "/1/2", "take": "zeros"},
    "identity": {},
}
"""Of each method, all that a step can say of itself."""


class Wrapped(NullTranslations):
    """Another language: what is said in it stands in brackets."""

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return f"⟦{msgid1 if n == 1 else msgid2}⟧"


@pytest.fixture(autouse=True)
def _another_language(monkeypatch):
    monkeypatch.setattr(language, "_messages", Wrapped())


@pytest.fixture
def names(workbench):
    """Return what finds the words of a checkpoint, which no language changes."""

    def words() -> set[str]:
        checkpoint = workbench.session.checkpoint
        kinds = set().union(*checkpoint.kinds.values())
        dtypes = {tensor.dtype for tensor in checkpoint.tensors.values()}
        return {*WORDS.findall(" ".join(checkpoint.tensors)), *kinds, *dtypes}

    return words


def said(widget: QWidget) -> Iterator[str]:
    """Yield what a widget, and all in it, says to the eye or to a screen reader."""
    for each in (widget, *widget.findChildren(QWidget)):
        yield from (each.toolTip(), each.accessibleName(), each.accessibleDescription())
        yield from (text for action in each.actions() for text in (action.text(), action.toolTip()))
        match each:
            case QLabel() | QAbstractButton():
                yield each.text()
            case QLineEdit():
                yield each.placeholderText()
            case QComboBox():
                yield from cells(each.model())
            case QAbstractSpinBox():
                yield each.text()
            case QHeaderView():
                across, model = Qt.Orientation.Horizontal, each.model()
                yield from (model.headerData(section, across) for section in range(each.count()))
            case QAbstractItemView() if each.model() is not None:
                yield from cells(each.model())


def cells(model: QAbstractItemModel, above: QModelIndex = ROOT) -> Iterator[str]:
    """Yield what all the cells of a model say."""
    for row in range(model.rowCount(above)):
        places = (model.index(row, column, above) for column in count())
        for index in takewhile(QModelIndex.isValid, places):
            yield from (text for role in ROLES if isinstance(text := index.data(role), str))
        yield from cells(model, model.index(row, 0, above))


def untranslated(text: str) -> set[str]:
    """Return the words of a text that are not of the other language."""
    before = None
    while text != before:
        before, text = text, re.sub("⟦[^⟦⟧]*⟧", " ", text)
    return set(WORDS.findall(text))


def untranslated_in(widget: QWidget) -> set[str]:
    return set().union(*(untranslated(text) for text in said(widget) if text))


def test_words_that_nobody_translated_are_found(qtbot):
    label = QLabel(f"{language.tr('1 {of} 2', of=language.tr('of'))} three")
    label.setToolTip("four")
    qtbot.addWidget(label)
    assert untranslated_in(label) == {"three", "four"}


def test_the_tree_speaks_the_language(qtbot, workbench, open_file, demo_checkpoint, names):
    tree = TreePanel(workbench)
    qtbot.addWidget(tree)
    open_file(demo_checkpoint)
    workbench.edit(lambda session: session.protect(frozenset(session.checkpoint.tensors), on=True))
    tree.filter.setText("weight")
    menu = QMenu(tree)
    tree.tree.selectAll()
    tree._offer_selected(menu, tree._selected_rows())
    assert untranslated_in(tree) <= names()
    tree.filter.clear()
    assert untranslated_in(tree) <= names()


@pytest.mark.parametrize("name", METHODS)
def test_the_draft_speaks_the_language(
    qtbot, workbench, open_file, demo_checkpoint, names, make_step, settle, name
):
    draft = DraftPanel(workbench)
    qtbot.addWidget(draft)
    assert untranslated_in(draft) <= RECIPE
    open_file(demo_checkpoint)
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.weight")))
    draft.target(frozenset(["features.conv1.weight", "features.conv2.weight"]))
    settle()
    assert untranslated_in(draft) <= RECIPE | names()
    draft.method.setCurrentIndex(draft.method.findData(name))
    draft.method.activated.emit(draft.method.currentIndex())
    assert untranslated_in(draft) <= RECIPE | names()
    draft.edit(0)
    settle()
    assert untranslated_in(draft) <= RECIPE | names()


def test_the_stack_speaks_the_language(
    qtbot, workbench, open_file, demo_checkpoint, names, make_step, settle
):
    stack = StackPanel(workbench)
    qtbot.addWidget(stack)
    open_file(demo_checkpoint)
    for target in ("*.weight", "*.weight", "nothing", "*.weight"):
        workbench.edit(
            lambda session, target=target: session.add(make_step("l1_unstructured", target))
        )
    workbench.edit(lambda session: session.switch(1, enabled=False))
    assert untranslated_in(stack) <= RECIPE | names()
    settle()
    reason = set(WORDS.findall(workbench.resolved.error.reason))
    assert untranslated_in(stack) <= RECIPE | names() | reason


@pytest.mark.parametrize("name", METHODS)
def test_the_title_of_a_step_is_in_the_language(make_step, name):
    assert untranslated(wording.title(make_step(name, **OTHERS[name]))) <= RECIPE


def test_the_history_speaks_the_language(qtbot, workbench, open_file, demo_checkpoint, make_step):
    history = HistoryPanel(workbench)
    qtbot.addWidget(history)
    open_file(demo_checkpoint)
    workbench.edit(lambda session: session.add(make_step()))
    workbench.edit(lambda session: session.name_state("one"))
    workbench.edit(lambda session: session.undo())
    workbench.edit(lambda session: session.name_state("two"))
    assert untranslated_in(history) == set()


def test_the_log_speaks_the_language_but_not_what_is_in_it(qtbot):
    log = LogPanel(Path("1"))
    qtbot.addWidget(log)
    entry = Entry("12:00:00", logging.WARNING, "2")
    log.add([entry])
    assert untranslated_in(log) <= {entry.level_name}
