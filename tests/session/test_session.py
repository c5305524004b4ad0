"""The open document, its edits, and their undo and redo."""

from __future__ import annotations

import pytest
import torch

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import StepError
from prune_gui.monitor import Monitor
from prune_gui.pruning.methods import METHODS
from prune_gui.pruning.plugins import load_methods
from prune_gui.recipe import Recipe, Step, export
from prune_gui.recipe.resolution import Resolution
from prune_gui.session import History, Session
from prune_gui.session.history import DraftState, describe_change


def step(amount: int, targets: str = "w") -> Step:
    return Step(method=METHODS["l1_unstructured"](amount=amount), targets=(targets,))


@pytest.fixture
def session(on_disk):
    return Session(on_disk({"w": torch.arange(8.0)}))


def amounts(session: Session) -> list[object]:
    return [each.method.model_dump()["amount"] for each in session.steps]


def test_every_edit_is_one_labelled_undo_entry(session):
    session.add(step(1))
    session.add(step(2))
    session.move(1, 0)
    session.switch(0, enabled=False)
    session.replace(1, step(3))
    session.remove(0)
    assert amounts(session) == [3]
    labels = []
    while session.history.undo_label:
        labels.append(session.history.undo_label)
        session.undo()
    assert labels == [
        "Remove step 1",
        "Edit step 2: 1 weight → 3 weights",
        "Switch off step 1",
        "Move step 2 to position 1",
        "Add L1 unstructured",
        "Add L1 unstructured",
    ]
    assert session.steps == ()
    session.redo()
    assert amounts(session) == [1]


def test_the_undo_label_of_protecting_several_has_their_number(on_disk):
    checkpoint = on_disk({name: torch.ones(2) for name in "abc"})
    session = Session(checkpoint)
    session.protect({"a", "b"}, on=True)
    assert session.protected == {"a", "b"}
    assert session.history.undo_label == "Protect 2 parameters"
    session.protect({"a", "b"}, on=False)
    assert session.protected == frozenset()
    assert session.history.undo_label == "Unprotect 2 parameters"


def test_a_recipe_is_unsaved_if_it_differs_from_the_last_save(session, tmp_path):
    assert not session.unsaved
    session.add(step(1))
    assert session.unsaved
    session.mark_saved(session.recipe, tmp_path / "recipe.yaml")
    assert not session.unsaved
    session.undo()
    assert session.unsaved
    session.redo()
    assert not session.unsaved
    assert session.recipe_path == tmp_path / "recipe.yaml"


def test_an_edit_resolves_only_the_steps_from_it_on(session, calls_of):
    done = calls_of(Resolution, "with_step")
    for amount in (1, 2, 3):
        session.add(step(amount))
    session.resolver.resolve(session.recipe, Monitor())
    done.clear()
    session.replace(1, step(4))
    resolution = session.resolver.resolve(session.recipe, Monitor())
    assert [one for _, one, _ in done] == [step(4), step(3)]
    assert resolution.pruned_by("w").tolist() == [1, 2, 2, 2, 2, 3, 3, 3]
    done.clear()
    session.resolver.resolve(session.recipe, Monitor())
    assert done == []


def test_a_failing_step_keeps_the_resolutions_before_it(session):
    session.add(step(1))
    session.add(step(100))
    with pytest.raises(StepError):
        session.resolver.resolve(session.recipe, Monitor())
    session.remove(1)
    assert session.resolver.resolve(session.recipe, Monitor()).counts == {"w": (1, 8)}


def test_steps_use_reloaded_methods_after_renewal(session, nearest_mean, plugin_file):
    source = nearest_mean.read_text()
    load_methods(plugin_file(source))
    session.add(Step(method=METHODS["nearest_mean"](amount=3), targets=("w",)))
    session.mark_saved(session.recipe)
    session.renew_methods()
    assert session.history.undo_label == "Add Nearest mean"
    load_methods(plugin_file(source))
    session.renew_methods()
    assert session.history.undo_label == "Load methods again"
    assert session.steps[0].method == METHODS["nearest_mean"](amount=3)
    assert not session.unsaved


def test_an_exported_file_offers_its_own_recipe(session, tmp_path):
    session.add(step(3))
    resolution = session.resolver.resolve(session.recipe, Monitor())
    export(resolution, tmp_path / "made.safetensors")
    with open_checkpoint(tmp_path / "made.safetensors") as checkpoint:
        again = Session(checkpoint)
        assert again.steps == ()
        again.apply_past_recipe()
        assert again.steps == session.steps
        assert again.unsaved
        again.undo()
        assert again.steps == ()
    session.apply_past_recipe()  # no effect: this program did not write the file
    assert session.made is None


def test_a_session_takes_over_history_states_and_unsaved_changes(session, tmp_path):
    session.add(step(1))
    session.mark_saved(session.recipe, tmp_path / "mine.yaml")
    session.name_state("one")
    session.add(step(2))
    other = Session(session.checkpoint)
    other.take_over(session)
    other.forget_state("one")
    assert other.history == session.history
    assert other.recipe_path == tmp_path / "mine.yaml"
    assert other.unsaved
    other.undo()
    assert not other.unsaved
    assert list(session.named_states) == ["one"]


def test_the_recipe_file_is_set_only_if_it_holds_the_current_recipe(session, tmp_path):
    path = tmp_path / "mine.yaml"
    session.use_recipe(Recipe(steps=(step(5),)), path)
    assert session.recipe_file == path
    session.add(step(1))
    session.mark_saved(session.recipe)  # within a pruned checkpoint
    assert not session.unsaved
    assert session.recipe_path == path
    assert session.recipe_file is None
    other = Session(session.checkpoint)
    other.take_over(session)
    other.undo()
    assert other.recipe_file == path


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
    return DraftState.of(make(amount=amount))


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


def make(method="l1_unstructured", targets=("*",), **parameters):
    return Step(method=METHODS[method](**parameters), targets=targets)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (make(amount=0.6), make(amount=0.7), "60 % → 70 %"),
        (make(amount=1.0), make(amount=1), "100 % → 1 weight"),
        (make(), make(), ""),
        (make(), make("lamp"), "L1 unstructured → LAMP"),
        (make(), make(targets=("a", "b")), "other targets"),
        (make(), make(scope="row", amount_of="total"), "local → row, remaining units → of all"),
        (make("n_m"), make("n_m", n=1), "2:4 → 1:4"),
        (make(), make(importance="/folder/scores.pt"), "none → scores.pt"),
        (
            make(),
            make(amount=0.1, scope="global", max_sparsity=0.9),
            "50 % → 10 %, local → global and 1 more",
        ),
    ],
)
def test_the_change_is_named(before, after, change):
    assert describe_change(before, after) == change
