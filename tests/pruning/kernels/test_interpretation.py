"""Python runs loops that are not compiled yet on small arrays, with the same results."""

import importlib.util
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from python_process import run_python
from safetensors.torch import save_file

import prune_gui
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.kernels.loop import (
    COMPILATION,
    INTERPRETED_IN_CALL,
    Loop,
    compiled_within,
    interpret_up_to,
    read_cache_again,
)
from prune_gui.pruning.kernels.numba_control import NotCompiledError, only_from_cache
from prune_gui.worker.warm_up import STEPS

MODULE = """
from prune_gui.pruning.kernels.loop import compiled

@compiled
def total(values):
    sum_ = 0.0
    for value in values:
        sum_ += value
    return sum_
"""
DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}
MORE_STEPS = (
    *STEPS,
    *({"method": "ln_structured", "amount": 0.5, "n": n} for n in (0, 1, 3, "inf", "-inf")),
    {"method": "lamp", "amount": 0.5, "score": "ria", "max_sparsity": 0.6},
    {"method": "erk", "amount": 0.5},
    {"method": "random_structured", "amount": 2},
)


@pytest.fixture
def limit():
    import_module(COMPILATION)
    interpret_up_to(10)
    read_cache_again()
    yield
    interpret_up_to(0)


@pytest.fixture
def cached_total(tmp_path):
    """Return a function that loads the loop `total` anew, as another process would."""
    path = tmp_path / "loops.py"
    path.write_text(MODULE)

    def load():
        spec = importlib.util.spec_from_file_location("loops", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.total

    return load


@pytest.mark.usefixtures("limit")
def test_a_loop_is_compiled_when_its_calls_would_take_longer():
    @compiled_within
    def increase(values):
        for i in range(values.size):
            values[i] += np.uint8(1)

    values = np.full(4, 255, np.uint8)  # wraps around without a warning
    for compiled in (0, 0, 1, 1):
        increase(values)
        assert len(increase.dispatcher.signatures) == compiled
    assert values.tolist() == [3] * 4
    increase(np.zeros(INTERPRETED_IN_CALL + 1, np.uint16))
    assert len(increase.dispatcher.signatures) == 2


@pytest.mark.usefixtures("limit")
def test_a_loop_over_the_largest_of_its_arrays_is_compiled_for_its_size():
    @compiled_within
    def mark(flags, codes):
        for i in range(codes.size):
            codes[i] = flags[i % flags.size]

    mark(np.ones(2, np.uint8), np.zeros(8, np.uint8))
    assert not mark.dispatcher.signatures
    mark(np.ones(2, np.uint8), np.zeros(11, np.uint8))
    assert len(mark.dispatcher.signatures) == 1


@pytest.mark.usefixtures("limit")
def test_a_loop_with_a_version_in_numpy_is_compiled_only_for_a_large_array():
    def increase_in_numpy(values):
        values += np.uint8(1)

    def increase_in_loop(values):
        for i in range(values.size):
            values[i] += np.uint8(1)

    increase = Loop(increase_in_loop, is_cached=False, in_numpy=increase_in_numpy)
    values = np.zeros(8, np.uint8)
    for _ in range(9):
        increase(values)
    assert not increase.dispatcher.signatures
    increase(np.zeros(INTERPRETED_IN_CALL + 1, np.uint8))
    assert increase.dispatcher.signatures
    assert values.tolist() == [9] * 8


@pytest.mark.usefixtures("limit")
def test_results_are_numbers_of_python_as_those_of_compiled_loops():
    @compiled_within
    def measure(values):
        return values.size, values[0], (values[0] > 0, np.float64(values[0]))

    values = np.full(4, 0.5, np.float32)
    interpreted = measure(values)
    assert not measure.dispatcher.signatures
    interpret_up_to(0)
    compiled = measure(values)
    assert measure.dispatcher.signatures
    assert interpreted == compiled == (4, 0.5, (True, 0.5))
    assert [*map(type, interpreted[:2])] == [*map(type, compiled[:2])] == [int, float]
    assert [*map(type, interpreted[2])] == [*map(type, compiled[2])] == [bool, float]


@pytest.mark.usefixtures("limit")
def test_the_code_that_another_process_compiled_is_used(cached_total):
    interpreted = cached_total()
    assert interpreted(np.ones(3)) == 3
    assert not interpreted.dispatcher.signatures
    interpret_up_to(0)
    cached_total()(np.ones(3))  # compiles, and writes to the cache
    interpret_up_to(10)
    assert interpreted(np.ones(3)) == 3
    assert not interpreted.dispatcher.signatures  # the cache is not read for each call
    read_cache_again()
    assert interpreted(np.ones(3)) == 3
    assert interpreted.dispatcher.signatures
    assert interpreted.dispatcher.stats.cache_hits


def test_loading_only_from_the_cache_compiles_nothing(cached_total):
    with only_from_cache(), pytest.raises(NotCompiledError):
        cached_total()(np.ones(3))
    cached_total()(np.ones(3))
    with only_from_cache():
        loaded = cached_total()
        loaded(np.ones(3))
    assert loaded.dispatcher.stats.cache_hits


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Return the path of weights of several types, with ties, zeros, NaN and infinities."""
    generator = torch.Generator().manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "weights.safetensors"
    tensors = {}
    for name, dtype in DTYPES.items():
        for shape in ((16, 24), (8, 4, 4, 4), (40,)):
            values = torch.randn(shape, generator=generator).mul(8).round().div(8)
            values.flatten()[:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
            tensors[f"{name}.{len(shape)}"] = values.to(dtype)
    save_file(tensors, path)
    return path


def pruned(path):
    """Return what each of `MORE_STEPS` prunes of the weights of each type."""
    found = []
    with prune_gui.open_checkpoint(path) as checkpoint:
        for step in MORE_STEPS:
            for name in DTYPES:
                targets = [f"{name}.* dims>1"]
                before = {"method": "l1_unstructured", "amount": 0.2, "targets": targets}
                recipe = prune_gui.Recipe(steps=[before, {**step, "targets": targets}])
                resolution = prune_gui.resolve(recipe, checkpoint)
                codes = [resolution.pruned_by(name) for name in checkpoint.tensors]
                found.append(torch.cat([each.flatten() for each in codes]))
    return torch.stack(found)


@pytest.mark.slow
def test_interpreted_loops_prune_the_same_as_compiled_ones(weights, tmp_path):
    code = f"""
        import sys
        sys.path[:0] = {[str(folder) for folder in Path(__file__).parents[:3]]!r}
        import torch
        from prune_gui.pruning.kernels import loop
        loop.Loop.__call__ = lambda loop, *arguments: (
            loop._interpret if loop._is_interpretable else loop.dispatcher
        )(*arguments)
        import test_interpretation
        torch.save(test_interpretation.pruned({str(weights)!r}), {str(tmp_path / "codes.pt")!r})
    """
    run_python(code)
    expected = pruned(weights)
    assert torch.equal(torch.load(tmp_path / "codes.pt"), expected)
    assert (expected > 1).flatten(1).any(dim=1).all()


def test_a_small_network_is_pruned_without_numba(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file({"small": torch.randn(16, 24), "large": torch.randn(200, 300)}, path)
    code = f"""
        import sys
        import prune_gui
        with prune_gui.open_checkpoint({str(path)!r}) as checkpoint:
            step = {{"method": "l1_unstructured", "amount": 0.5, "targets": ["*"]}}
            resolution = prune_gui.resolve(prune_gui.Recipe(steps=[step]), checkpoint)
            print(sum(resolution.pruned_by(name).sum().item() for name in checkpoint.tensors))
        print("numba" in sys.modules)
    """
    assert run_python(code).split() == [str((16 * 24 + 200 * 300) // 2), "False"]


def test_numba_is_imported_when_its_import_would_have_taken_as_long():
    code = """
        import sys
        import numpy as np
        from prune_gui.pruning.kernels import loop

        loop.NUMBA_IMPORT_S = 0.01

        @loop.compiled_within
        def total(values):
            sum_ = 0
            for value in values:
                sum_ += value
            return sum_

        totals = {total(np.ones(100_000, np.int64)) for _ in range(30)}
        print(totals, "numba" in sys.modules)
    """
    assert run_python(code) == "{100000} True\n"


SIZES = st.sampled_from([0, 1, 7, 8, 9, *(key_kernels.BLOCK + i for i in (-1, 0, 1, 9, 5000))])
TYPES = st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64])


@st.composite
def bits_and_key_range(draw):
    """Bits of few or of many values, their magnitude, and two keys in ascending order."""
    dtype, seed = draw(TYPES), draw(st.integers(0, 99))
    magnitude = np.iinfo(dtype).max // 2
    max_key = draw(st.sampled_from([3, 100, magnitude]))
    generator = np.random.default_rng(seed)
    size = draw(SIZES)
    signs = generator.integers(0, 2, size).astype(dtype) * dtype(magnitude + 1)
    bits = generator.integers(0, max_key, size, dtype, endpoint=True) | signs
    low, high = sorted(draw(st.tuples(*[st.integers(0, max_key)] * 2)))
    return bits, dtype(magnitude), dtype(low), dtype(high)


@given(bits_and_key_range(), st.integers(-3, 10_000), st.integers(0, 2))
def test_mark_below_sets_the_codes_of_unmarked_elements_below_the_cut(drawn, last_tie, marked):
    bits, magnitude, _, threshold = drawn
    codes = np.arange(bits.size).astype(np.uint8) % 3 * marked
    keys = bits & magnitude
    below_cut = (keys < threshold) | ((keys == threshold) & (np.arange(bits.size) <= last_tie))
    expected = np.where(below_cut & (codes == 0), 9, codes)
    for run in (key_kernels.mark_below, key_kernels.mark_below._interpret):
        found = codes.copy()
        run(bits, magnitude, threshold, last_tie, np.uint8(9), found)
        np.testing.assert_array_equal(found, expected)


@given(bits_and_key_range(), st.integers(1, 3))
def test_copy_kept_sets_the_elements_with_a_code_to_zero(drawn, period):
    bits = drawn[0]
    codes = (np.arange(bits.size) % period).astype(np.uint8)
    for run in (key_kernels.copy_kept, key_kernels.copy_kept._interpret):
        out = np.full(bits.size, 9, bits.dtype)
        run(bits, codes, out)
        np.testing.assert_array_equal(out, np.where(codes == 0, bits, 0))


@given(bits_and_key_range(), st.booleans(), st.integers(0, 7))
def test_count_leading_counts_the_leading_digits_of_remaining_bits(drawn, masked, shift):
    bits = drawn[0].astype(np.uint16) & np.uint16(0xFFF)
    remaining_mask = np.random.default_rng(0).random(bits.size) < 0.5 if masked else None
    remaining = bits if remaining_mask is None else bits[remaining_mask]
    expected = np.bincount(remaining >> shift, minlength=1 << 12)
    for run in (key_kernels.count_leading, key_kernels.count_leading._interpret):
        counts = np.ones((2, 1 << 12), np.uint32)
        run(bits, remaining_mask, np.uint16(shift), counts)
        np.testing.assert_array_equal(counts.sum(axis=0) - 2, expected)


@given(bits_and_key_range())
def test_find_between_returns_the_positions_in_order(drawn):
    bits, magnitude, low, high = drawn
    keys = bits & magnitude
    positions = np.empty(bits.size, np.uint32)
    count = key_kernels.find_between(bits, magnitude, low, high, positions)
    np.testing.assert_array_equal(positions[:count], np.flatnonzero((keys >= low) & (keys <= high)))


@given(bits_and_key_range(), st.booleans(), st.integers(0, 3))
def test_count_digits_between_counts_the_digits_of_keys_in_the_range(drawn, masked, shift):
    bits, magnitude, low, high = drawn
    remaining_mask = np.random.default_rng(0).random(bits.size) < 0.5 if masked else None
    keys = bits & magnitude
    chosen = (keys >= low) & (keys <= high) & (True if remaining_mask is None else remaining_mask)
    key = bits.dtype.type
    digits = keys[chosen] >> key(shift) & key(15)
    for run in (key_kernels.count_digits_between, key_kernels.count_digits_between._interpret):
        counts = np.ones(16, np.uint32)
        run(bits, magnitude, remaining_mask, low, high, key(shift), key(15), counts)
        expected = np.bincount(digits.astype(int), minlength=16)
        np.testing.assert_array_equal(counts - 1, expected)


@given(
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    span=st.tuples(*[st.integers(0, 729)] * 2),
    seed=st.integers(0, 99),
)
def test_mark_channels_sets_the_codes_of_unmarked_elements_of_pruned_channels(shape, span, seed):
    generator = np.random.default_rng(seed)
    pruned = generator.random(shape[1]) < 0.5
    codes = generator.integers(0, 2, shape, np.uint8)
    expected = np.where(pruned[:, None] & (codes == 0), 9, codes).ravel()
    start, stop = sorted(min(each, codes.size) for each in span)
    for run in (key_kernels.mark_channels, key_kernels.mark_channels._interpret):
        found = codes.ravel()[start:stop].copy()
        run(pruned, shape[2], start, np.uint8(9), found)
        np.testing.assert_array_equal(found, expected[start:stop])


@pytest.mark.parametrize("start", [0, 3, 17])
def test_mark_rows_applies_a_cut_per_row(start):
    bits = np.random.default_rng(0).integers(0, 4, 35).astype(np.uint16)
    thresholds, last_ties = np.array([0, 1, 2, 3, 4], np.uint16), np.array([6, -1, 3, 0, 2])
    rows, columns = np.divmod(np.arange(35), 7)
    below_cut = (bits < thresholds[rows]) | (
        (bits == thresholds[rows]) & (columns <= last_ties[rows])
    )
    codes = np.zeros(30 - start, np.uint8)
    codes[1] = 5
    expected = np.where(codes == 0, below_cut[start:30], codes)
    magnitude, step = np.uint16(0x7FFF), np.uint8(1)
    key_kernels.mark_rows(bits[start:30], magnitude, thresholds, last_ties, 7, start, step, codes)
    np.testing.assert_array_equal(codes, expected)
