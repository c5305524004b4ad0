"""The draft: set, shown, committed."""

from __future__ import annotations

import pytest

from prune_gui.checkpoint import open_checkpoint
from prune_gui.gui.workbench import DraftController
from prune_gui.session import Session
from prune_gui.worker.jobs import Draft


@pytest.fixture
def draft(qtbot):
    made = DraftController()
    made.told = []
    made.changed.connect(lambda: made.told.append(made.current))
    made.original_toggled.connect(lambda: made.told.append(made.shows_original))
    return made


@pytest.fixture
def session(demo_checkpoint):
    with open_checkpoint(demo_checkpoint) as checkpoint:
        yield Session(checkpoint)


def test_only_another_draft_is_announced(draft, make_step):
    draft.set(make_step(amount=0.5))
    draft.set(make_step(amount=0.5))
    draft.set(make_step(amount=0.5), replaces=0)
    draft.set(None, replaces=0)
    step = make_step(amount=0.5)
    assert draft.told == [Draft(step), Draft(step, 0), None]


def test_a_committed_draft_is_added_or_replaces_its_step(draft, session, make_step):
    first, second = make_step(amount=0.25), make_step(amount=0.5)
    draft.set(first)
    draft.commit(session, Draft(first))
    assert session.steps == (first,)
    assert draft.current is None
    draft.commit(session, Draft(second, 0))  # it was not previewed
    assert session.steps == (second,)


def test_only_a_toggle_of_the_original_is_announced(draft):
    for on in (True, True, False, False):
        draft.show_original(on=on)
    assert draft.told == [True, False]
