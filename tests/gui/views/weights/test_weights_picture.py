"""The reach cache, which the GUI thread clears while the engine uses it."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.gui.views.weights import data as module
from prune_gui.gui.views.weights.data import (
    MAX_CACHED_REACHES,
    ReachCache,
    WeightsPainter,
    colour_limit,
)
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import LIGHT
from prune_gui.recipe import Recipe, resolve
from prune_gui.recipe.auxiliary_files import AuxiliaryFiles
from prune_gui.session.subjects import Subject


@pytest.fixture
def switching():
    """Switch between threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Forgetful(ReachCache):
    """A cache that is cleared at the worst moment, as if another file were opened."""

    def keep(self, key, reach):
        super().keep(key, reach)
        self.forget()


def test_clearing_the_reach_cache_during_painting_is_safe(tmp_path):
    save_file({"w": torch.tensor([1.0, -3.0])}, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        subject = Subject(resolve(Recipe(), checkpoint), checkpoint.tensors["w"], None)
        painter = WeightsPainter(subject, LIGHT, "value", 0, "", AuxiliaryFiles(), Forgetful())
        assert painter._reach(Monitor()) == 3.0


@pytest.mark.usefixtures("switching")
def test_the_reach_cache_is_thread_safe():
    cache = ReachCache()

    def keep(first: int) -> None:
        for key in range(first, first + 2000):
            cache.keep(key, 1.0)
            if key % 100 == 0:
                cache.forget()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(keep, range(0, 8000, 2000)))
    assert sum(cache.get(key) is not None for key in range(8000)) <= MAX_CACHED_REACHES


NONE = np.zeros(0, np.bool_)


def measure_of(numbers, defined=NONE):
    def measure(start, stop):
        return numbers[start:stop], defined[start:stop] if defined.size else NONE

    return measure


def test_outliers_do_not_move_the_end_of_the_scale():
    numbers = np.linspace(-1, 1, 5000, dtype=np.float32)
    assert colour_limit(measure_of(numbers), numbers.size, Monitor()) == 1
    numbers[[7, 900]] = 300, -math.inf
    assert colour_limit(measure_of(numbers), numbers.size, Monitor()) == pytest.approx(1, abs=0.01)


def test_only_defined_numbers_count():
    numbers = np.full(1000, 50.0)
    defined = np.zeros(1000, np.bool_)
    assert colour_limit(measure_of(numbers, defined), 1000, Monitor()) == 0
    numbers[::2], defined[::2] = 2.0, True
    assert colour_limit(measure_of(numbers, defined), 1000, Monitor()) == 2
    assert colour_limit(measure_of(numbers[:0]), 0, Monitor()) == 0


def test_a_large_parameter_is_sampled_from_start_to_end(monkeypatch):
    monkeypatch.setattr(module, "SAMPLED_SPANS", 8)
    monkeypatch.setattr(module, "SPAN_ELEMENTS", 16)
    numbers = np.arange(10_000.0)
    read = []

    def measure(start, stop):
        read.append((start, stop))
        return numbers[start:stop], NONE

    assert colour_limit(measure, numbers.size, Monitor()) == 9999
    assert len(read) == 8
    assert (read[0][0], read[-1][1]) == (0, 10_000)
