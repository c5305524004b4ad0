import gc
import weakref
from types import SimpleNamespace

import pytest

from prune_gui.gui.runtime import gc_timer


class Ring:
    """An object that refers to itself."""

    def __init__(self):
        self.me = self


@pytest.fixture
def settled(qapp):
    """Return a `GcTimer` whose timers the test fires."""
    made = gc_timer.GcTimer(qapp)
    made.settle()
    made._young.stop()
    made._full.stop()
    yield made
    made.stop()
    made.deleteLater()


def test_young_cycles_are_collected(settled):
    gone = weakref.ref(Ring())
    settled._young.timeout.emit()
    assert gone() is None


@pytest.mark.parametrize(
    ("new", "done"),
    [(gc_timer.MAX_YOUNG_OBJECTS, [("collect", 1)]), (gc_timer.MAX_YOUNG_OBJECTS + 1, ["freeze"])],
)
def test_too_many_new_objects_are_frozen_without_a_collection(settled, monkeypatch, new, done):
    seen = []
    counted = SimpleNamespace(
        get_count=lambda: (new, 0, 0),
        collect=lambda generation: seen.append(("collect", generation)),
        freeze=lambda: seen.append("freeze"),
    )
    with monkeypatch.context() as patch:
        patch.setattr(gc_timer, "gc", counted)
        settled._young.timeout.emit()
    assert seen == done


@pytest.mark.parametrize("limit", [0.0, 1e9])
def test_survivors_of_a_slow_full_collection_are_frozen(settled, monkeypatch, limit):
    monkeypatch.setattr(gc_timer, "MAX_FULL_COLLECTION_S", limit)
    before, kept, gone = gc.get_freeze_count(), Ring(), weakref.ref(Ring())
    settled._full.timeout.emit()
    assert gone() is None
    assert kept.me is kept
    assert (gc.get_freeze_count() > before) == (limit == 0)
