import gc
import weakref
from types import SimpleNamespace

import pytest

from prune_gui.gui.runtime import gc_timer


class Ring:
    """Refers to itself."""

    def __init__(self):
        self.me = self


@pytest.fixture
def settled(qapp):
    """Return what makes a collector whose timers are told when to fire."""
    made = gc_timer.GcTimer(qapp)
    made.settle()
    made._young.stop()
    made._all.stop()
    yield made
    made.stop()
    made.deleteLater()


def test_young_cycles_are_collected(settled):
    gone = weakref.ref(Ring())
    settled._young.timeout.emit()
    assert gone() is None


@pytest.mark.parametrize(
    ("new", "done"), [(gc_timer.FLOOD, [("collect", 1)]), (gc_timer.FLOOD + 1, ["freeze"])]
)
def test_a_flood_of_new_objects_is_never_looked_through(settled, monkeypatch, new, done):
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


@pytest.mark.parametrize("patience", [0.0, 1e9])
def test_what_took_long_to_look_through_is_not_looked_through_again(settled, monkeypatch, patience):
    monkeypatch.setattr(gc_timer, "LONG", patience)
    before, kept, gone = gc.get_freeze_count(), Ring(), weakref.ref(Ring())
    settled._all.timeout.emit()
    assert gone() is None
    assert kept.me is kept
    assert (gc.get_freeze_count() > before) == (patience == 0)
