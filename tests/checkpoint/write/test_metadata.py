"""What other threads compute while a file is written: metadata, and the next chunks."""

import threading
from contextlib import closing
from threading import Event

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.write.content import (
    ANY_FINGERPRINT,
    LateText,
    fingerprint_beside,
    with_checksums,
)
from prune_gui.checkpoint.write.plain_files import MAX_PREFETCHED, prefetch
from prune_gui.errors import Cancelled
from prune_gui.monitor import Monitor


def test_a_late_text_is_waited_for_only_with_the_checksums():
    asked = []
    metadata = {"a": "b", "late": LateText("12", lambda: asked.append(1) or "34")}
    assert with_checksums(metadata, ["w"]) == {"a": "b", "late": "12"}
    assert not asked
    assert with_checksums(metadata, ["w"], {"w": 1}) == {"a": "b", "late": "34"}


@pytest.fixture
def checkpoint(tmp_path):
    save_file({"w": torch.zeros(1 << 20)}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path / "model.safetensors") as opened:
        yield opened


def test_the_fingerprint_has_the_length_of_its_placeholder(checkpoint):
    with fingerprint_beside(checkpoint, Monitor()) as late:
        assert late.result() == checkpoint.fingerprint(Monitor())
    assert len(late.result()) == len(late.placeholder) == len(ANY_FINGERPRINT)


def test_an_error_in_the_block_ends_the_computation(checkpoint, monkeypatch):
    started = Event()

    def endless(_, monitor):
        while True:
            monitor.advance(1)
            started.set()

    def fail():
        with fingerprint_beside(checkpoint, Monitor()):
            started.wait()
            raise ZeroDivisionError

    monkeypatch.setattr(Source, "fingerprint", endless)
    with pytest.raises(ZeroDivisionError):
        fail()


def test_a_cancelled_monitor_cancels_the_computation(checkpoint):
    cancel = Event()
    cancel.set()
    with fingerprint_beside(checkpoint, Monitor(cancel=cancel)) as late, pytest.raises(Cancelled):
        late.result()


def test_items_come_in_order_and_from_another_thread():
    makers = []

    def items():
        for i in range(20):
            makers.append(threading.current_thread())
            yield i

    assert list(prefetch(items())) == list(range(20))
    assert threading.current_thread() not in makers


def test_only_a_few_items_are_computed_in_advance():
    computed = []
    with closing(prefetch(computed.append(i) or i for i in range(100))) as prepared:
        for used in range(1, 10):
            next(prepared)
            assert len(computed) <= used + MAX_PREFETCHED + 1


def test_an_exception_is_raised_after_the_items_before_it():
    def items():
        yield 1
        raise KeyError("lost")

    items_so_far = []
    with pytest.raises(KeyError, match="lost"):
        items_so_far.extend(prefetch(items()))
    with closing(prefetch(items())) as prepared:
        assert next(prepared) == 1


def test_leaving_early_ends_the_thread():
    before = threading.active_count()
    with closing(prefetch(range(100))) as prepared:
        assert next(prepared) == 0
    assert threading.active_count() == before
