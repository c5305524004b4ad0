from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui import parallel
from prune_gui.checkpoint import TensorInfo
from prune_gui.monitor import Monitor
from prune_gui.statistics import layer_statistics, weight_values
from prune_gui.statistics.dispatch import EARLY_READ_LIMIT_BYTES, read_budget
from prune_gui.statistics.layer_rows import deepest, fitting, grouping, rows_of, updated_rows
from prune_gui.statistics.layer_statistics import compute, empty_statistics

HALF = {"method": "l1_unstructured", "amount": 0.5}
ROWS = {"method": "ln_structured", "amount": 0.4, "dim": 0}
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


def every(_):
    return True


def first():
    left = iter([True])
    return lambda _: next(left, False)


def weighed(resolution, before=None):
    return compute(empty_statistics(resolution, before), every, Monitor())


def rows(statistics, depth=None):
    return rows_of(statistics, grouping(statistics.infos, depth))


def made(shape, seed, dtype=torch.float32):
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    flat = weights.view(-1)
    flat[:: seed % 3 + 2] = 0
    if seed % 4 == 1:
        flat[-1] = float("nan")
        flat[0] = float("-inf")
    return weights


@given(
    shapes=st.lists(SHAPES, min_size=1, max_size=3),
    seed=st.integers(0, 50),
    dtypes=st.lists(st.sampled_from(DTYPES), min_size=3, max_size=3),
    start=st.sampled_from(["dense", "zeros"]),
    steps=st.lists(st.sampled_from([HALF, ROWS]), max_size=2),
    chunk=st.sampled_from([1, 7, 1 << 20]),
    small=st.sampled_from([0, 6, 1 << 14]),
    together=st.sampled_from([1, 2, 1024]),
)
def test_every_statistic_equals_that_of_the_full_mask(
    resolved, shapes, seed, dtypes, start, steps, chunk, small, together
):
    parts = enumerate(zip(shapes, dtypes, strict=False))
    tensors = {f"m{i}__w": made(shape, seed + i, dtype) for i, (shape, dtype) in parts}
    if any(len(shape) < 2 for shape in shapes):
        steps = [step for step in steps if step is not ROWS]
    resolution = resolved(*steps, start=start, **tensors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        patch.setattr(layer_statistics, "MAX_SMALL_ELEMENTS", small)
        patch.setattr(layer_statistics, "MAX_BATCH", together)
        found = rows(weighed(resolution))
    for row, name in enumerate(found.names):
        values = resolution.checkpoint.read(name).double().numpy()
        codes = resolution.pruned_by(name).numpy()
        finite, kept = np.isfinite(values), codes == 0
        squares = np.where(finite, values, 0) ** 2
        assert found.total[row] == values.size
        assert found.pruned[row] == (~kept).sum()
        assert found.energy[row] == pytest.approx(squares.sum(), rel=1e-12)
        assert found.kept[row] == pytest.approx(squares[kept].sum(), rel=1e-12)
        assert found.nan[row] == np.isnan(values).sum()
        assert found.infinite[row] == np.isinf(values).sum()
        for code, counts in zip(found.codes, found.counts, strict=True):
            assert counts[row] == (codes == code).sum()
        if values.ndim > 1:
            lined_up = values.reshape(len(values), -1)
            assert found.channels[row] == len(values)
            assert found.dead_in_file[row] == (lined_up == 0).all(1).sum()
            left = (lined_up != 0) & kept.reshape(lined_up.shape)
            assert found.dead[row] == (~left.any(1)).sum()
        else:
            assert found.channels[row] == found.dead[row] == found.dead_in_file[row] == 0


def test_counts_need_no_weights_and_the_rest_is_computed_incrementally(resolved, monkeypatch):
    resolution = resolved(HALF, a=torch.randn(4, 4), b=torch.randn(1, 2), c=torch.randn(9, 9))
    with monkeypatch.context() as patch:
        patch.setattr(type(resolution.checkpoint), "read_key", None)
        statistics = empty_statistics(resolution)
        assert rows(statistics).pruned.tolist() == [8, 1, 40]
        assert np.isnan(rows(statistics).kept_share).all()
    assert statistics.progress == 0
    one = compute(statistics, first(), Monitor())
    assert np.isnan(rows(one).kept_share).tolist() == [True, False, True]
    assert one.progress == 8 / 396
    assert compute(one, every, Monitor()).is_complete


def test_after_an_edit_only_the_changed_parameters_are_read(resolved, monkeypatch):
    tensors = {f"{name}__w": torch.randn(4, 4) for name in "abcd"}
    before = resolved({**HALF, "targets": ["a.*", "b.*"]}, **tensors)
    surveyed = weighed(before)
    step = before.recipe.steps[0].model_copy(update={"targets": ("c.*", "d.*")})
    after = before.with_step(step, Monitor())
    known = empty_statistics(after, surveyed)
    assert known.measures["weighed"].tolist() == [True, True, False, False]
    assert known.progress == 0.5
    read = []
    look = weight_values.together
    monkeypatch.setattr(weight_values, "together", lambda *of: read.extend(of[1]) or look(*of))
    again = compute(known, every, Monitor())
    assert read == ["c.w", "d.w"]
    np.testing.assert_array_equal(again.measures, weighed(after).measures)


def test_a_parameter_without_steps_is_not_read_again(resolved):
    after = resolved(ROWS, w=torch.randn(4, 4))
    nothing = resolved(w=torch.randn(4, 4))
    before = weighed(after)
    object.__setattr__(nothing, "checkpoint", after.checkpoint)
    found = empty_statistics(nothing, before)
    assert found.is_complete
    np.testing.assert_array_equal(found.measures, weighed(nothing).measures)
    assert rows(found).kept_share.tolist() == [1.0]


@pytest.mark.parametrize("small", [0, 1 << 14])
def test_energies_are_those_of_the_reference(resolved, in_memory, monkeypatch, small):
    monkeypatch.setattr(layer_statistics, "MAX_SMALL_ELEMENTS", small)
    tensors = {
        "a__w": torch.tensor([[0.0, 1.0], [2.0, 3.0]]),
        "b__w": torch.ones(2),
        "c__w": torch.tensor([4.0, 6.0]),
    }
    resolution = resolved({"method": "channels", "channels": [1], "targets": ["a.w"]}, **tensors)
    reference = {
        "a.w": torch.tensor([[5.0, 6.0], [7.0, 8.0]]),
        "b.w": torch.zeros(3),
        "c.w": torch.tensor([4.0, 5.0, 6.0]),
    }
    original = in_memory(reference)
    own = weighed(resolution)
    other = compute(empty_statistics(resolution, own, reference=original), every, Monitor())
    assert rows(other).energy.tolist() == [174, np.inf, 77]
    shares = [36 / 174, np.nan, 52 / 77]  # other values; slices, as in a compact file
    assert rows(other).kept_share.tolist() == pytest.approx(shares, nan_ok=True)
    none = compute(empty_statistics(resolution, other, reference=None), every, Monitor())
    assert np.isnan(rows(none).kept_share).all()
    for name in ("dead", "dead_in_file", "nan"):
        assert (other.measures[name] == own.measures[name]).all()


@pytest.mark.parametrize("small", [0, 1 << 14])
def test_running_statistics_are_no_energy(resolved, in_memory, monkeypatch, small):
    monkeypatch.setattr(layer_statistics, "MAX_SMALL_ELEMENTS", small)
    tensors = {"a__weight": torch.ones(4, 2), "a__running_var": torch.full((4,), 1e4)}
    resolution = resolved({**HALF, "targets": ["a.weight"]}, **tensors)
    reference = in_memory({name.replace("__", "."): one for name, one in tensors.items()})
    for found in (
        weighed(resolution),
        compute(empty_statistics(resolution, reference=reference), every, Monitor()),
    ):
        assert rows(found).energy.tolist() == [8, 0]
        assert rows(found, 1).kept_share.tolist() == [0.5]


def test_totals_leave_out_running_statistics_unless_a_step_prunes_them(resolved):
    tensors = {"n__weight": torch.ones(4), "n__running_var": torch.ones(4)}
    step = {"method": "l1_unstructured", "amount": 2}
    pruned = resolved({**step, "targets": ["n.weight"]}, **tensors)
    assert pruned.total == (2, 4)
    module = rows(weighed(pruned), 1)
    assert (module.pruned.tolist(), module.total.tolist()) == ([2], [4])
    assert rows(weighed(pruned)).total.tolist() == [4, 4]
    assert resolved({**step, "targets": ["n.running_var"]}, **tensors).total == (2, 8)
    assert resolved(n__running_var=torch.ones(4)).total == (0, 4)


def test_statistics_of_another_file_are_not_reused(resolved):
    before = weighed(resolved(w=torch.ones(2, 2)))
    other = resolved(w=torch.zeros(2, 2))
    assert not empty_statistics(other, before).measures["known"].any()


@pytest.mark.parametrize("weight", [0.0, 1e200])
def test_zero_or_non_finite_energy_has_no_share(resolved, weight):
    weights = torch.full((2, 2), weight, dtype=torch.float64)
    found = rows(weighed(resolved(HALF, w=weights)))
    assert np.isnan(found.kept_share).all()


@pytest.mark.parametrize("small", [0, 1 << 14])
def test_a_pruned_weight_whose_square_is_infinite_leaves_the_energy_of_the_others(
    resolved, monkeypatch, small
):
    monkeypatch.setattr(layer_statistics, "MAX_SMALL_ELEMENTS", small)
    weight = torch.tensor([[1e200], [2.0], [3.0]], dtype=torch.float64)
    removed = {"method": "channels", "channels": [0], "dim": 0}
    measures = weighed(resolved(removed, w=weight)).measures
    assert measures["kept"].tolist() == [13.0]


def test_progress_is_in_bytes(resolved):
    resolution = resolved(a=torch.ones(3, 3), b=torch.ones(5, dtype=torch.bfloat16))
    told = []
    compute(empty_statistics(resolution), every, Monitor(lambda *of: told.append(of)))
    assert told[-1] == (46, 46)


TENSORS = {
    "encoder__layer__10__w": torch.ones(2, 2),
    "encoder__layer__2__w": torch.full((2, 2), 2.0),
    "encoder__layer__2__b": torch.zeros(3),
    "head__w": torch.ones(1, 4),
    "scale": torch.ones(()),
}


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        (None, [f"encoder.layer.{name}" for name in ("2.w", "2.b", "10.w")] + ["scale", "head.w"]),
        (1, ["encoder", "scale", "head"]),
        (2, ["encoder.layer", "scale", "head.w"]),
        (3, ["encoder.layer.2", "encoder.layer.10", "scale", "head.w"]),
    ],
)
def test_a_module_is_the_sum_of_its_parameters(resolved, depth, names):
    statistics = weighed(resolved({**HALF, "targets": ["*.w"]}, **TENSORS))
    alone, found = rows(statistics), rows(statistics, depth)
    assert list(found.names) == names
    assert found.codes == alone.codes == (1,)
    for row, name in enumerate(names):
        here = [i for i, n in enumerate(alone.names) if n == name or n.startswith(f"{name}.")]
        assert found.size[row] == len(here)
        assert found.infos[row].name in [alone.names[i] for i in here]
        for part in ("total", "pruned", "nan", "channels", "dead", "energy", "kept"):
            assert getattr(found, part)[row] == getattr(alone, part)[here].sum()


@pytest.mark.parametrize(
    ("names", "most", "depth"),
    [
        (TENSORS, 5, None),
        (TENSORS, 4, 3),
        (TENSORS, 3, 2),
        (TENSORS, 2, None),
        (("m__a", "m__b", "m__c"), 2, None),  # not a depth with a single module
    ],
)
def test_the_deepest_modules_that_are_few_enough_are_found(resolved, names, most, depth):
    infos = empty_statistics(resolved(**dict.fromkeys(names, torch.ones(1)))).infos
    assert fitting(infos, most) == depth
    assert deepest(infos) == max(name.count("__") for name in names)


def test_a_module_has_no_energy_until_all_its_parameters_are_computed(resolved):
    statistics = empty_statistics(resolved(**TENSORS))
    while not statistics.is_complete:
        found = rows(statistics, 1)
        expected = [statistics.measures["weighed"][of].all() for of in ([0, 1, 2], [4], [3])]
        assert (~np.isnan(found.energy)).tolist() == expected
        statistics = compute(statistics, first(), Monitor())


@pytest.mark.parametrize("depth", [None, 2])
def test_updated_rows_equal_new_rows_and_share_unchanged_arrays(resolved, depth):
    statistics = empty_statistics(resolved(HALF, **TENSORS))
    before = rows(statistics, depth)
    while not statistics.is_complete:
        statistics = compute(statistics, first(), Monitor())
        found, expected = updated_rows(before, statistics), rows(statistics, depth)
        for part in ("energy", "kept", "nan", "infinite", "dead", "dead_in_file"):
            np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
        assert found.total is before.total
        assert found.shapes is before.shapes


def test_nearly_empty_begins_at_99_percent(resolved):
    prune = partial(dict, method="l1_unstructured")
    resolution = resolved(
        prune(amount=99, targets=["a"]),
        prune(amount=98, targets=["b"]),
        a=torch.arange(100.0),
        b=torch.arange(100.0),
    )
    assert rows(empty_statistics(resolution)).nearly_empty.tolist() == [1, 0]


def test_counts_do_not_wait_for_a_large_parameter():
    large = TensorInfo("w", (EARLY_READ_LIMIT_BYTES,), "float32")
    assert not read_budget(counted=False)(large)
    assert read_budget(counted=True)(large)
    assert not read_budget(counted=True, seconds=0)(large)
