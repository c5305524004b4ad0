"""The reach cache, which the GUI thread clears while the engine uses it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.colours import LIGHT
from prune_gui.gui.views.weights.data import MAX_CACHED_REACHES, ReachCache, WeightsPainter
from prune_gui.monitor import Monitor
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
