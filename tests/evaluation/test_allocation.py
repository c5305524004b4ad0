"""How much of each group is pruned: exact in total, within the limits, as the shifts say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.evaluation.space import Room, allocated

SHIFTS = st.floats(-3, 3)


@st.composite
def rooms(draw):
    size = draw(st.integers(1, 10_000))
    least, usual, most = sorted(draw(st.tuples(*[st.integers(0, size)] * 3)))
    return Room(least, usual, most, size)


@given(st.lists(st.tuples(rooms(), SHIFTS), min_size=1, max_size=12), st.floats(-0.1, 1.1))
def test_the_sum_is_exact_and_each_count_lies_in_its_limits(groups, share):
    chosen, shifts = zip(*groups, strict=True)
    least, most = sum(room.least for room in chosen), sum(room.most for room in chosen)
    total = round(share * sum(room.size for room in chosen))
    counts = allocated(chosen, shifts, total)
    assert sum(counts) == min(max(total, least), most)
    assert all(room.least <= count <= room.most for room, count in zip(chosen, counts, strict=True))


USUAL = st.integers(2, 10**9).flatmap(lambda n: st.tuples(st.integers(1, n - 1), st.just(n)))


@given(st.lists(USUAL, min_size=1, max_size=12), SHIFTS)
def test_equal_shifts_give_the_usual_counts(groups, shift):
    chosen = [Room(0, usual, size, size) for usual, size in groups]
    usual = tuple(usual for usual, _ in groups)
    assert allocated(chosen, [shift] * len(groups), sum(usual)) == usual


def test_a_higher_shift_prunes_more_at_the_cost_of_the_others():
    chosen = [Room(0, 500, 1000, 1000)] * 3
    more, *others = allocated(chosen, (1.0, 0.0, 0.0), 1500)
    assert others == [419, 419]
    log_odds = [math.log(count / (1000 - count)) for count in (more, 419)]
    assert log_odds[0] - log_odds[1] == pytest.approx(1, abs=0.01)


def test_a_group_that_the_ranking_kept_or_pruned_as_a_whole_can_change():
    full, empty = Room(0, 1000, 1000, 1000), Room(0, 0, 1000, 1000)
    fewer, more = allocated((full, empty), (-8.0, 8.0), 1000)
    assert fewer < 500 < more
