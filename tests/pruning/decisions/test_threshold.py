"""The threshold is an exact real number for every dtype of weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from floats import ORDERED
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from targets import decide as decide_by
from targets import target

from prune_gui.pruning import parallel
from prune_gui.pruning.methods import METHODS

DTYPES = [*ORDERED, torch.float8_e4m3fnuz]
numbers = st.sampled_from([0.0, -0.0, 0.1, -0.3, 2.0**-9, 448.0, 1e30, np.inf, np.nan]) | st.floats(
    -4, 4, width=32
)


@st.composite
def weights(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(hnp.array_shapes(max_dims=4, max_side=5))
    values = draw(hnp.arrays(np.float64, shape, elements=numbers))
    return torch.from_numpy(values).to(draw(st.sampled_from(DTYPES)))


decide = partial(decide_by, "threshold")


@given(weights(), st.data())
def test_elements_below_the_threshold_as_real_numbers_are_pruned(tensor, data):
    exact = tensor.double().abs().flatten().numpy()
    finite = exact[np.isfinite(exact)]
    at_an_entry = st.sampled_from(finite) if finite.size else st.nothing()
    value = data.draw(
        at_an_entry
        | at_an_entry.map(lambda x: float(np.nextafter(x, np.inf)))
        | at_an_entry.map(lambda x: max(0.0, float(np.nextafter(x, -np.inf))))
        | st.floats(0, 5)
        | st.floats(0, 1e308)
    )
    remaining_mask = data.draw(st.none() | hnp.arrays(bool, exact.size))
    [decision] = decide(target(tensor, remaining_mask=remaining_mask), value=float(value))
    found = decision.predicate.prunes(0, exact.size)
    assert np.array_equal(found, (exact < value) & np.isfinite(exact))
    assert decision.pruned == (found if remaining_mask is None else found & remaining_mask).sum()
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, exact.size)] * 2)))
    assert np.array_equal(decision.predicate.prunes(start, stop), found[start:stop])


@given(weights(), st.floats(0, 3), st.integers(1, 9))
def test_the_standard_deviation_is_that_of_the_finite_elements(tensor, value, chunk):
    exact = tensor.double().flatten()
    finite = exact[exact.isfinite()]
    assume(len(finite) > 1)
    threshold = value * finite.std().item()
    magnitude = exact.abs()
    assume(not ((magnitude - threshold).abs() <= 1e-9 * max(1, threshold)).any())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        [decision] = decide(target(tensor), value=value, relative_to="std")
    assert decision.predicate.prunes(0, len(exact)).tolist() == (magnitude < threshold).tolist()


def test_the_standard_deviation_does_not_depend_on_earlier_steps():
    tensor = torch.linspace(-3, 3, 101)
    remaining_mask = np.arange(101) % 3 == 0
    [fresh] = decide(target(tensor), value=1, relative_to="std")
    [stacked] = decide(target(tensor, remaining_mask=remaining_mask), value=1, relative_to="std")
    assert np.array_equal(fresh.predicate.prunes(0, 101), stacked.predicate.prunes(0, 101))
    assert stacked.pruned == (fresh.predicate.prunes(0, 101) & remaining_mask).sum() < fresh.pruned


def test_the_rank_of_an_element_has_its_distance_to_the_threshold():
    [decision] = decide(target(torch.tensor([0.25, -2.0, 0.5])), value=0.5)
    element_rank = decision.predicate.element_rank(1)
    assert (element_rank.pruned, element_rank.margin, element_rank.rank) == (False, 1.5, 2)
    assert decision.predicate.element_rank(0).margin == -0.25


def test_a_number_that_yaml_parses_as_text_is_accepted():
    assert METHODS["threshold"].model_validate({"value": "1e-3"}).value == 0.001
