"""Tests of packed masks: caching, eviction, and computing them again."""

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import RecipeError
from prune_gui.pruning.predicates import PackedMask, PluginMask, masks


class Maker:
    """Returns a mask, and counts the calls."""

    def __init__(self, seed: int, size: int = 800) -> None:
        self.mask = np.random.default_rng(seed).random(size) < 0.5
        self.calls = 0

    def __call__(self) -> np.ndarray:
        self.calls += 1
        return self.mask


@given(st.lists(st.integers(0, 70), min_size=1, max_size=4), st.data())
def test_each_span_of_each_parameter_equals_the_computed_mask(sizes, data):
    maker = Maker(0, sum(sizes))
    packed = PackedMask(maker, "a test")
    firsts = [sum(sizes[:i]) for i in range(len(sizes))]
    for first, size in zip(firsts, sizes, strict=True):
        start = data.draw(st.integers(0, size))
        stop = data.draw(st.integers(start, size))
        part = PluginMask(packed, first).prunes(start, stop)
        assert part.dtype == np.bool_
        assert np.array_equal(part, maker.mask[first + start : first + stop])
        if start < size:
            assert PluginMask(packed, first).element_rank(start).pruned == maker.mask[first + start]
    assert maker.calls == 1


def test_the_least_recently_used_mask_is_evicted_and_computed_again(monkeypatch):
    monkeypatch.setattr(masks, "MAX_CACHED_BYTES", 200)  # two masks of 100 bytes
    makers = [Maker(seed) for seed in range(3)]
    packed = [PackedMask(maker, "a test") for maker in makers]
    for i in (0, 1, 0, 2, 0):  # 2 evicts 1
        packed[i].bits()
    assert [maker.calls for maker in makers] == [1, 1, 1]
    assert np.array_equal(PluginMask(packed[1]).prunes(0, 800), makers[1].mask)
    assert [maker.calls for maker in makers] == [1, 2, 1]


def test_a_mask_above_the_limit_is_cached_while_it_is_in_use(monkeypatch):
    monkeypatch.setattr(masks, "MAX_CACHED_BYTES", 10)
    maker = Maker(0)
    mask = PackedMask(maker, "a test")
    mask.bits()
    mask.bits()
    assert maker.calls == 1


def test_a_mask_without_references_leaves_the_cache():
    before = len(masks._kept)
    mask = PackedMask(Maker(0), "a test")
    mask.bits()
    assert len(masks._kept) == before + 1
    del mask
    gc.collect()
    assert len(masks._kept) == before


def test_a_mask_that_differs_when_computed_again_is_rejected(monkeypatch):
    monkeypatch.setattr(masks, "MAX_CACHED_BYTES", 0)
    maker = Maker(0)
    mask = PackedMask(maker, "Coin (coin.py)")
    mask.bits()
    PackedMask(Maker(1), "a test").bits()  # evicts it
    maker.mask = ~maker.mask
    with pytest.raises(RecipeError, match=r"^Coin \(coin\.py\) returned a different mask"):
        mask.bits()
