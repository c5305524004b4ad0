"""Nothing that a user sets up is lost: laws of the history with its draft, for any edits."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Step
from prune_gui.session import Session
from prune_gui.session.history import DraftState
from prune_gui.session.kept_recipes import SUFFIX, Journal, Unsaved
from prune_gui.session.state_file import StateFile

BLANK = replace(
    DraftState.of(Step(method=METHODS["l1_unstructured"](), targets=("*",))),
    follows=True,
    previewed=False,
    is_set_up=False,
)
AMOUNTS = st.integers(1, 9)
INDEX = st.integers(0, 9)


def step(amount, targets=("w",), method="l1_unstructured"):
    return Step(method=METHODS[method](amount=amount), targets=targets)


class Edits(RuleBasedStateMachine):
    """A user who edits the stack and its draft; `checkpoint` is open, `folder` for the journal."""

    def __init__(self, checkpoint, folder):
        super().__init__()
        self.checkpoint, self.folder = checkpoint, folder
        self.open()

    def open(self):
        self.session = Session(self.checkpoint)
        self.session.note_draft(BLANK, amend=True)

    def act(self, change):
        """Change the session; one undo restores what was before, or one redo if it went back."""
        before = self.session.history
        change(self.session)
        after = self.session.history
        state = before.recipe, before.draft
        assert state in [(one.recipe, one.draft) for one in (after, after.undo(), after.redo())]

    def at(self, index):
        return index % len(self.session.steps)

    def typed(self, amount):
        draft = self.session.draft
        made = step(amount, draft.targets) if amount % 3 else None  # or an incomplete one
        values = {"amount": amount}
        return replace(draft, step=made, values=values, previewed=True, is_set_up=True)

    @rule(amounts=st.lists(AMOUNTS, min_size=1, max_size=3))
    def drag_or_type(self, amounts):
        def change(session):
            begun = session.history
            for amount in amounts:
                session.note_draft(self.typed(amount), merge=session.history is not begun)

        self.act(change)

    @rule(name=st.sampled_from(["w", "v"]))
    def select(self, name):
        if self.session.draft.follows:
            self.session.note_draft(replace(self.session.draft, targets=(name,)), amend=True)

    @precondition(lambda self: self.session.steps)
    @rule(index=INDEX)
    def edit_step(self, index):
        before, index = self.session.draft, self.at(index)
        self.act(lambda session: session.edit_step(index))
        assert self.session.draft.step == self.session.steps[index]
        assert self.session.draft.aside == (before if before.editing is None else before.aside)

    @rule(amount=AMOUNTS)
    def pick_in_a_view(self, amount):
        self.act(lambda session: session.draft_step(step(amount, ("v",))))
        assert self.session.draft.aside is not None

    @rule()
    def cancel(self):
        aside = self.session.draft.aside
        self.act(lambda session: session.end_draft())
        assert aside in (None, self.session.draft)

    @rule()
    def add_or_apply(self):
        draft, count = self.session.draft, len(self.session.steps)
        self.act(lambda session: session.commit_draft())
        if draft.step is None:
            assert self.session.draft == draft
            return
        place = count if draft.editing is None else draft.editing
        assert self.session.steps[place] == draft.step
        assert self.session.draft == (draft.aside or draft.done())

    @precondition(lambda self: self.session.steps)
    @rule(index=INDEX, to=INDEX, how=st.sampled_from(["remove", "move", "duplicate", "replace"]))
    def change_the_stack(self, index, to, how):
        session, draft = self.session, self.session.draft
        index, to = self.at(index), self.at(to)
        edited = None if draft.editing is None else session.steps[draft.editing]
        arguments = {"move": (to,), "replace": (step(20 + to),)}.get(how, ())
        self.act(lambda session: getattr(session, how)(index, *arguments))
        if edited is None:
            assert session.draft == draft
        elif any(one is edited for one in session.steps):
            assert session.steps[session.draft.editing] is edited
            assert replace(session.draft, editing=draft.editing) == draft
        else:
            assert session.draft == draft.aside

    @precondition(lambda self: self.session.steps)
    @rule(index=INDEX)
    def switch(self, index):
        session, draft = self.session, self.session.draft
        index = self.at(index)
        on = not session.steps[index].enabled
        self.act(lambda session: session.switch(index, enabled=on))
        assert (session.draft.editing, session.draft.values) == (draft.editing, draft.values)
        if draft.editing == index and draft.step is not None:
            assert session.draft.step == draft.step.model_copy(update={"enabled": on})

    @rule(name=st.sampled_from("ab"))
    def name_state_or_return_to_it(self, name):
        if name in self.session.named_states:
            self.act(lambda session: session.return_to(name))
        else:
            self.session.name_state(name)

    @rule()
    def undo(self):
        self.session.undo()

    @rule()
    def redo(self):
        self.session.redo()

    @rule(index=INDEX)
    def click_in_the_history(self, index):
        index %= len(self.session.history.edits)
        self.session.go_to_edit(index)
        assert self.session.history.current_edit == index

    @rule()
    def reload_the_file(self):
        again = Session(self.checkpoint)
        again.take_over(self.session)
        assert again.history == self.session.history
        self.session = again

    @rule()
    def crash_and_restore(self):
        before = self.session
        Journal(self.folder).keep(before)
        kept = [StateFile(path, Unsaved, 1 << 24).load() for path in self.folder.glob(f"*{SUFFIX}")]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.open()
        for unsaved in kept:
            self.session.bring_back(unsaved.parsed(), None, unsaved.draft)
        assert self.session.recipe == before.recipe
        if before.has_unfinished_draft:
            assert self.session.draft == before.draft
        else:
            assert self.session.draft == BLANK

    @invariant()
    def what_is_marked_in_the_history_is_shown(self):
        history = self.session.history
        assert history.edits[history.current_edit].recipe == self.session.recipe
        if history.undo_label is not None:
            assert history.undo().redo() == history
        if history.redo_label is not None:
            assert history.redo().undo() == history

    @invariant()
    def what_is_edited_is_in_the_stack(self):
        draft = self.session.draft
        if draft.editing is not None:
            assert 0 <= draft.editing < len(self.session.steps)
            assert draft.aside.editing is None


@pytest.fixture
def checkpoint(on_disk):
    return on_disk({"w": torch.arange(8.0), "v": torch.ones(30)})


def test_every_change_of_the_stack_and_the_draft_can_be_undone(checkpoint, tmp_path):
    run_state_machine_as_test(
        lambda: Edits(checkpoint, tmp_path / "kept"),
        settings=settings(max_examples=60, stateful_step_count=25, deadline=None),
    )
