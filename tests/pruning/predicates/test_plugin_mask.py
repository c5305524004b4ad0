"""Masks that are kept packed, let go of, and made again."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.errors import RecipeError
from prune_gui.pruning.predicates import PackedMask, PluginMask, plugin_mask


class Maker:
    """Makes a mask, and counts how often."""

    def __init__(self, seed: int, size: int = 800) -> None:
        self.mask = np.random.default_rng(seed).random(size) < 0.5
        self.made = 0

    def __call__(self) -> np.ndarray:
        self.made += 1
        return self.mask


@given(st.lists(st.integers(0, 70), min_size=1, max_size=4), st.data())
def test_every_stretch_of_every_part_is_what_was_made(sizes, data):
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
    assert maker.made == 1


def test_what_was_used_longest_ago_is_made_again_once_there_is_no_room(monkeypatch):
    monkeypatch.setattr(plugin_mask, "KEPT_AT_MOST", 200)  # two masks of 100 bytes
    makers = [Maker(seed) for seed in range(3)]
    masks = [PackedMask(maker, "a test") for maker in makers]
    for i in (0, 1, 0, 2, 0):  # 1 has to go for 2
        masks[i].bits()
    assert [maker.made for maker in makers] == [1, 1, 1]
    assert np.array_equal(PluginMask(masks[1]).prunes(0, 800), makers[1].mask)
    assert [maker.made for maker in makers] == [1, 2, 1]


def test_a_mask_larger_than_all_room_is_kept_while_it_is_used(monkeypatch):
    monkeypatch.setattr(plugin_mask, "KEPT_AT_MOST", 10)
    maker = Maker(0)
    mask = PackedMask(maker, "a test")
    mask.bits()
    mask.bits()
    assert maker.made == 1


def test_a_mask_that_nobody_can_ask_for_takes_no_room():
    before = len(plugin_mask._kept)
    mask = PackedMask(Maker(0), "a test")
    mask.bits()
    assert len(plugin_mask._kept) == before + 1
    del mask
    gc.collect()
    assert len(plugin_mask._kept) == before


def test_a_mask_that_comes_out_another_is_refused(monkeypatch):
    monkeypatch.setattr(plugin_mask, "KEPT_AT_MOST", 0)
    maker = Maker(0)
    mask = PackedMask(maker, "Coin (coin.py)")
    mask.bits()
    PackedMask(Maker(1), "a test").bits()  # takes its place
    maker.mask = ~maker.mask
    with pytest.raises(RecipeError, match=r"^Coin \(coin\.py\) made another mask"):
        mask.bits()
