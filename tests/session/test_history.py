"""Undo and redo."""

from __future__ import annotations

import pytest

from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Step
from prune_gui.session import History
from prune_gui.session.history import DraftState, describe_change

RECIPES = [
    Recipe(steps=(Step(method=METHODS["identity"](), targets=("*",)),) * n) for n in range(5)
]


def test_labels_name_the_edits_that_undo_and_redo_would_affect():
    history = History.begin(RECIPES[0]).act("one", RECIPES[1]).act("two", RECIPES[2])
    assert (history.undo_label, history.redo_label) == ("two", None)
    assert (history.undo().undo_label, history.undo().redo_label) == ("one", "two")


def test_an_edit_without_effect_adds_no_entry():
    history = History.begin(RECIPES[0])
    assert history.act("nothing", RECIPES[0]) is history


def test_a_new_edit_discards_undone_entries():
    history = History.begin(RECIPES[0]).act("one", RECIPES[1]).undo().act("other", RECIPES[3])
    assert history.redo_label is None
    assert history.recipe == RECIPES[3]


def draft(amount):
    return DraftState.of(step(amount=amount))


def test_changes_of_the_draft_are_undone_before_the_edit_and_lose_no_undone_edit():
    history = History.begin(RECIPES[0]).act("one", RECIPES[1]).act("two", RECIPES[2])
    history = history.undo().with_draft(draft(0.1)).with_draft(draft(0.2))
    assert (history.recipe, history.draft) == (RECIPES[1], draft(0.2))
    assert history.undo().draft == draft(0.1)
    assert [entry.label for entry in history.edits] == ["Open", "one", "two"]
    assert history.current_edit == 1
    assert history.redo().recipe == RECIPES[2]
    again = history.undo().with_draft(draft(0.3))
    assert (again.redo_label, again.undo().draft) == ("two", draft(0.1))
    assert again.at_edit(2).at_edit(1) == again
    assert history.undo().act("three", RECIPES[3]).undo().redo_label == "three"
    assert history.with_draft(draft(0.2)) is history
    merged = history.with_draft(draft(0.4), merge=True)
    assert (merged.draft, merged.undo().draft) == (draft(0.4), draft(0.1))


def step(method="l1_unstructured", targets=("*",), **parameters):
    return Step(method=METHODS[method](**parameters), targets=targets)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (step(amount=0.6), step(amount=0.7), "60 % → 70 %"),
        (step(amount=1.0), step(amount=1), "100 % → 1 weight"),
        (step(), step(), ""),
        (step(), step("lamp"), "L1 unstructured → LAMP"),
        (step(), step(targets=("a", "b")), "other targets"),
        (step(), step(scope="row", amount_of="total"), "local → row, remaining units → of all"),
        (step("n_m"), step("n_m", n=1), "2:4 → 1:4"),
        (step(), step(importance="/folder/scores.pt"), "none → scores.pt"),
        (
            step(),
            step(amount=0.1, scope="global", max_sparsity=0.9),
            "50 % → 10 %, local → global and 1 more",
        ),
    ],
)
def test_the_change_is_named(before, after, change):
    assert describe_change(before, after) == change
