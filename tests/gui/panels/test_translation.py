"""Every text in a panel is translated."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from foreign import untranslated
from PySide6.QtWidgets import QMenu
from shown import names_in, untranslated_in

from prune_gui.gui import formatting
from prune_gui.gui.draft.draft_panel import DraftPanel
from prune_gui.gui.modules.tree_panel import TreePanel
from prune_gui.gui.panels.log_panel import LogPanel
from prune_gui.gui.runtime.log_feed import LogEntry
from prune_gui.gui.stack.history_panel import HistoryPanel
from prune_gui.gui.stack.stack_panel import StackPanel
from prune_gui.pruning.methods import METHODS

pytestmark = pytest.mark.usefixtures("foreign_language")

RECIPE_WORDS = ("fro", "nuc", "output", "input", "x", "nothing", "encoder.*.weight, !*.bias")
"""Words of recipes and targets that are not translated."""
NON_DEFAULTS = {
    "refit": {"moments": "/1/2", "damping": 0.5},
    "bias_correction": {"means": "/1/2"},
    "batch_norm_statistics": {"statistics": "/1/2"},
    "l1_unstructured": {"amount": 0.3, "scope": "row", "amount_of": "total", "amounts": {"x": 1}},
    "ln_structured": {"amount": 1, "scope": "global", "amount_of": "reach", "dim": 1, "n": "inf"},
    "lamp": {"amount": 0.7, "max_sparsity": 0.9, "importance": "/1/2"},
    "balanced": {"amount": 0.7, "over": "row", "row_power": 1.0, "column_power": 0.0},
    "erk": {"amount": 3, "score": "ria"},
    "threshold": {"value": 0.5, "relative_to": "std"},
    "n_m": {"n": 1, "m": 8, "dim": 0, "flatten": False, "tail": "keep"},
    "block": {"amount": 7, "n": 1, "tail": "keep"},
    "channels": {"channels": (1, 2, 3)},
    "coupled": {
        "amount": 3,
        "reduction": "sum",
        "uniform": True,
        "round_to": 8,
        "importance": "/1/2",
    },
    "layers": {"layers": (1, 2, 3), "stack": "encoder"},
    "experts": {"amount": 2, "importance": "/1/2", "reduction": "sum"},
    "listed_units": {"units": (0, 5), "space": "heads"},
    "tokens": {"listed": "/1/2"},
    "random_unstructured": {"amount": 1, "seed": 3},
    "random_structured": {"amount": 0.5, "seed": 3},
    "custom_from_mask": {"mask": "/1/2", "take": "zeros"},
    "dead_units": {"fold_constants": False},
    "identity": {},
}
"""For each method, field values that appear in the title of a step."""


@pytest.fixture
def names(workbench):
    """Return a function that returns the names in the open checkpoint."""
    return lambda: names_in(workbench.session.checkpoint)


def test_the_tree_is_translated(qtbot, workbench, open_file, demo_checkpoint, names):
    tree = TreePanel(workbench)
    qtbot.addWidget(tree)
    open_file(demo_checkpoint)
    workbench.edit(lambda session: session.protect(frozenset(session.checkpoint.tensors), on=True))
    tree.filter.setText("weight")
    menu = QMenu(tree)
    tree.tree.selectAll()
    tree._offer_selected(menu, tree.tree.selection.rows())
    assert untranslated_in(tree, *names()) == set()
    tree.filter.clear()
    assert untranslated_in(tree, *names()) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_draft_panel_is_translated(
    qtbot, workbench, open_file, demo_checkpoint, names, make_step, settle, name
):
    draft = DraftPanel(workbench)
    qtbot.addWidget(draft)
    assert untranslated_in(draft, *RECIPE_WORDS) == set()
    open_file(demo_checkpoint)
    workbench.edit(lambda session: session.add(make_step("l1_unstructured", "*.weight")))
    draft.target(frozenset(["features.conv1.weight", "features.conv2.weight"]))
    settle()
    assert untranslated_in(draft, *RECIPE_WORDS, *names()) == set()
    draft.method.setCurrentIndex(draft.method.findData(name))
    draft.method.activated.emit(draft.method.currentIndex())
    assert untranslated_in(draft, *RECIPE_WORDS, *names()) == set()
    draft.edit(0)
    settle()
    assert untranslated_in(draft, *RECIPE_WORDS, *names()) == set()


def test_the_stack_is_translated(
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
    assert untranslated_in(stack, *RECIPE_WORDS, *names()) == set()
    settle()
    assert untranslated_in(stack, *RECIPE_WORDS, *names()) == set()


@pytest.mark.parametrize("name", METHODS)
def test_the_title_of_a_step_is_translated(make_step, name):
    assert (
        untranslated(formatting.title(make_step(name, **NON_DEFAULTS[name])), *RECIPE_WORDS) == []
    )


def test_the_history_is_translated(qtbot, workbench, open_file, demo_checkpoint, make_step):
    history = HistoryPanel(workbench)
    qtbot.addWidget(history)
    open_file(demo_checkpoint)
    workbench.edit(lambda session: session.add(make_step()))
    workbench.edit(lambda session: session.name_state("one"))
    workbench.edit(lambda session: session.undo())
    workbench.edit(lambda session: session.name_state("two"))
    assert untranslated_in(history, "one", "two") == set()


def test_the_log_panel_is_translated_except_for_its_entries(qtbot):
    log = LogPanel(Path("1"))
    qtbot.addWidget(log)
    entry = LogEntry("12:00:00", logging.WARNING, "2")
    log.add([entry])
    assert untranslated_in(log) == set()
