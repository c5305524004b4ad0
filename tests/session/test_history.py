"""Undo and redo."""

from hypothesis import given
from hypothesis import strategies as st

from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Step
from prune_gui.session import History

RECIPES = [
    Recipe(steps=(Step(method=METHODS["identity"](), targets=("*",)),) * n) for n in range(5)
]


@given(st.lists(st.sampled_from(RECIPES), max_size=8))
def test_undoing_everything_and_redoing_it_is_where_one_was(recipes):
    history = begun = History.begin(RECIPES[0])
    for recipe in recipes:
        history = history.act("act", recipe)
    there = history
    while there.undo_label:
        there = there.undo()
    assert there.recipe == begun.recipe
    assert there.undo() == there
    while there.redo_label:
        there = there.redo()
    assert there == history
    assert there.redo() == there


def test_labels_are_those_of_what_would_be_undone_and_redone():
    history = History.begin(RECIPES[0]).act("one", RECIPES[1]).act("two", RECIPES[2])
    assert (history.undo_label, history.redo_label) == ("two", None)
    assert (history.undo().undo_label, history.undo().redo_label) == ("one", "two")


def test_an_act_without_effect_is_none():
    history = History.begin(RECIPES[0])
    assert history.act("nothing", RECIPES[0]) is history


def test_a_new_act_takes_the_place_of_what_was_undone():
    history = History.begin(RECIPES[0]).act("one", RECIPES[1]).undo().act("other", RECIPES[3])
    assert history.redo_label is None
    assert history.recipe == RECIPES[3]
