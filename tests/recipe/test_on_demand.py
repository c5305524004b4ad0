"""Tiles, explanations and counts of a resolution, and the work that they need."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from applied import applied
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from prune_gui import parallel
from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, Resolution, export, resolve
from prune_gui.recipe.recipe import IN_FILE
from prune_gui.recipe.resolver import Resolver

SHAPES = {"conv.weight": (6, 3, 2, 2), "fc.weight": (5, 24), "fc.bias": (5,)}
STEPS = [
    {"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.3, "scope": "global"},
    {"method": "ln_structured", "targets": ["conv.weight"], "amount": 1, "dim": 1},
    {"method": "l1_unstructured", "targets": ["*"], "amount": 0.5, "scope": "row"},
    {"method": "random_unstructured", "targets": ["fc.*"], "amount": 0.2},
]
HALF = {"method": "l1_unstructured", "targets": ["fc.weight"], "amount": 0.5}
GROUPED = [
    {"method": "n_m", "targets": ["fc.weight"], "n": 2, "m": 4},
    {"method": "block", "targets": ["fc.*t"], "amount": 3, "height": 2, "width": 3, "tail": "keep"},
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkpoint]:
    path = tmp_path_factory.mktemp("demand") / "model.safetensors"
    generator = torch.Generator().manual_seed(0)
    save_file({n: torch.randn(s, generator=generator) for n, s in SHAPES.items()}, path)
    with open_checkpoint(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def resolution(checkpoint: Checkpoint) -> Resolution:
    return resolve(Recipe(steps=STEPS), checkpoint)


@given(st.data())
def test_any_tile_equals_the_slice_of_the_whole(resolution, data):
    name = data.draw(st.sampled_from(list(SHAPES)))
    ends = st.integers(0, 25)
    tile = tuple(slice(*sorted((data.draw(ends), data.draw(ends)))) for _ in SHAPES[name])
    assert torch.equal(resolution.pruned_by(name, tile), resolution.pruned_by(name)[tile])
    assert torch.equal(resolution.mask(name, tile), resolution.mask(name)[tile])


@pytest.mark.parametrize("steps", [[*STEPS, *GROUPED], [*GROUPED, *reversed(STEPS)]])
def test_an_element_has_the_code_of_the_first_step_that_prunes_it(checkpoint, steps):
    resolution = resolve(Recipe(steps=steps), checkpoint)
    for name, layers in resolution.layers.items():
        size = checkpoint.tensors[name].numel
        start, stop = size // 3, size - 1
        expected, memory = np.zeros(stop - start, np.uint8), np.full(size, 99, np.uint8)
        for layer in reversed(layers):
            expected[layer.predicate.prunes(start, stop)] = layer.step
        resolution.pruned_by_within(name, start, stop, memory[start:stop])
        assert np.array_equal(memory[start:stop], expected)
        assert np.all(memory[:start] == 99)
        assert np.all(memory[stop:] == 99)


@pytest.mark.parametrize(
    "tile", [(), (slice(None),), (slice(None), slice(0, 4, 2)), slice(None), (0, 1)]
)
def test_a_tile_that_does_not_fit_is_refused_by_name(resolution, tile):
    with pytest.raises(RecipeError, match=r"fc\.weight has shape \[5, 24\]"):
        resolution.mask("fc.weight", tile)


@given(st.data())
def test_an_explanation_agrees_with_the_mask_and_the_file(resolution, data):
    name = data.draw(st.sampled_from(list(SHAPES)))
    index = tuple(data.draw(st.integers(-side, side - 1)) for side in SHAPES[name])
    found = resolution.explain(name, index)
    assert found.pruned_by == resolution.pruned_by(name)[index]
    assert found.value == resolution.checkpoint.read(name)[index]
    assert found.index == tuple(i % side for i, side in zip(index, SHAPES[name], strict=True))
    for step, element_rank in found.element_ranks.items():
        assert element_rank.pruned is (step == found.pruned_by)
        assert element_rank.margin is not None
        assert element_rank.margin <= 0 if element_rank.pruned else element_rank.margin >= 0
        assert element_rank.rank is not None
        assert element_rank.ranked is not None
        assert element_rank.rank < element_rank.ranked


def test_an_explanation_counts_only_elements_remaining_from_earlier_steps(resolution):
    kept = resolution.mask("fc.weight").nonzero()[0].tolist()
    element_ranks = resolution.explain("fc.weight", kept).element_ranks
    assert element_ranks[1].ranked == 120
    after_first = int((resolution.pruned_by("fc.weight")[kept[0]] != 1).sum())
    assert element_ranks[3].ranked == after_first
    assert element_ranks[3].unit == f"weight of row {kept[0]}"


def test_the_explanation_of_a_zero_in_the_file_states_that(tmp_path):
    save_file({"w": torch.tensor([0.0, 1.0])}, tmp_path / "zeros.safetensors")
    with applied(tmp_path / "zeros.safetensors", Recipe(start="zeros")) as found:
        assert found.explain("w", (0,)).pruned_by == IN_FILE
        assert found.explain("w", (1,)).pruned_by == 0


@pytest.mark.parametrize("index", [(), (5, 0), (0, 0, 0), (-6, 0)])
def test_an_index_out_of_range_is_refused_by_name(resolution, index):
    with pytest.raises(RecipeError, match=r"fc\.weight has shape \[5, 24\]"):
        resolution.explain("fc.weight", index)


LOCAL = [
    {"method": "l1_unstructured", "targets": ["*"], "amount": 0.3},
    {"method": "random_unstructured", "targets": ["*"], "amount": 2},
    {"method": "l1_unstructured", "targets": ["*"], "amount": 0.5, "max_sparsity": 0.6},
]
ROWS_AND_CHANNELS = [
    {"method": "l1_unstructured", "targets": ["fc.*"], "amount": 0.5, "scope": "row"},
    {"method": "ln_structured", "targets": ["conv.weight"], "amount": 0.5},
]


@pytest.mark.parametrize("steps", [LOCAL, ROWS_AND_CHANNELS])
def test_local_amounts_are_counted_without_reading_a_weight(checkpoint, monkeypatch, steps):
    view, seen = checkpoint.view_key, []
    monkeypatch.setattr(checkpoint, "view_key", lambda key: (seen.append(key), view(key))[1])
    resolution = resolve(Recipe(steps=steps), checkpoint)
    counts = dict(resolution.counts)
    assert not seen
    for name, (pruned, total) in counts.items():
        assert int((~resolution.mask(name)).sum()) == pruned
        assert total == math.prod(SHAPES[name])
    assert seen


def test_notes_on_non_finite_scores_appear_once_the_scores_are_computed(on_disk):
    opened = on_disk({"w": torch.tensor([math.nan, 1.0, 2.0])})
    step = {"method": "l1_unstructured", "targets": ["*"], "amount": 1}
    resolution = resolve(Recipe(steps=[step]), opened)
    assert resolution.outcomes[0].notes == {}
    assert resolution.outcomes[0].notes is resolution.outcomes[0].notes
    assert resolution.mask("w").tolist() == [True, False, True]
    assert "NaN" in resolution.outcomes[0].notes["w"]


def test_notes_are_kept_while_other_scores_are_computed(checkpoint):
    other = {"method": "l1_unstructured", "targets": ["fc.bias"], "amount": 0.5}
    resolution = resolve(Recipe(steps=[HALF, other]), checkpoint)
    first, second = resolution.outcomes
    notes, notes_of_other = first.notes, second.notes
    resolution.mask("fc.bias")
    assert second.notes is not notes_of_other
    assert first.notes is notes


def test_a_parameter_without_remaining_elements_has_a_warning(checkpoint):
    steps = [
        {"method": "l1_unstructured", "targets": ["fc.bias"], "amount": 1.0},
        {"method": "l1_unstructured", "targets": ["fc.weight"], "amount": 119},
        {"method": "l1_unstructured", "targets": ["conv.weight"], "amount": 0.9},
    ]
    notes = [outcome.notes for outcome in resolve(Recipe(steps=steps), checkpoint).outcomes]
    assert notes[0] == {"fc.bias": "none of its weights remain"}
    assert notes[1] == {"fc.weight": "only 1 of 120 weights remains"}
    assert notes[2] == {}


def test_an_edit_recomputes_only_the_steps_that_depend_on_it(checkpoint):
    first = {"method": "l1_unstructured", "targets": ["conv.weight"], "amount": 0.5}
    after = {"method": "l1_unstructured", "targets": ["conv.weight"], "amount": 0.1}
    resolver = Resolver(checkpoint)
    before = resolver.resolve(Recipe(steps=[first, HALF, after]), Monitor()).layers
    changed = {**first, "amount": 0.25}
    edited = resolver.resolve(Recipe(steps=[changed, HALF, after]), Monitor()).layers
    assert edited["fc.weight"][0].predicate is before["fc.weight"][0].predicate
    for old, new in zip(before["conv.weight"], edited["conv.weight"], strict=True):
        assert new.predicate is not old.predicate
    undone = resolver.resolve(Recipe(steps=[first, HALF, after]), Monitor()).layers
    assert [layer.predicate for layer in undone["conv.weight"]] == [
        layer.predicate for layer in before["conv.weight"]
    ]


def test_one_unit_and_a_share_of_one_are_different_amounts(checkpoint):
    resolver = Resolver(checkpoint)
    for amount, pruned in ((1, 1), (1.0, 5), (1, 1)):
        step = {"method": "l1_unstructured", "targets": ["fc.bias"], "amount": amount}
        resolution = resolver.resolve(Recipe(steps=[step]), Monitor())
        assert resolution.counts["fc.bias"] == (pruned, 5)


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
def test_threads_and_chunks_do_not_change_a_byte_of_an_export(
    checkpoint, monkeypatch, set_torch_threads, tmp_path, form
):
    def exported(name: str) -> bytes:
        export(resolve(Recipe(steps=STEPS), checkpoint), tmp_path / name, form)
        return (tmp_path / name).read_bytes()

    expected = exported("as-usual.safetensors")
    for threads in (1, 3):
        for chunk in (1, 17, 1 << 21):
            set_torch_threads(threads)
            monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
            assert exported(f"{threads}-{chunk}.safetensors") == expected


def test_scores_of_another_shape_name_both_accepted_shapes(checkpoint, tmp_path):
    path = tmp_path / "scores.safetensors"
    save_file({"fc.weight": torch.ones(5)}, path)
    step = {"method": "l1_unstructured", "targets": ["fc.weight"], "importance": str(path)}
    with pytest.raises(RecipeError, match=r"\[5, 24\].* one score per input column, \[24\]"):
        resolve(Recipe(steps=[step]), checkpoint)


@pytest.mark.parametrize("start", ["dense", "zeros"])
def test_a_finalized_file_records_what_was_pruned(checkpoint, tmp_path, start):
    export(resolve(Recipe(steps=[HALF]), checkpoint), tmp_path / "half.safetensors")
    with applied(tmp_path / "half.safetensors", Recipe(steps=[HALF], start=start)) as again:
        assert again.counts["fc.weight"] == (90, 120)
        assert again.counts["conv.weight"] == (0, 72)
        assert int((again.pruned_by("fc.weight") == IN_FILE).sum()) == 60


def test_a_finalized_file_whose_zeros_were_trained_away_is_dense_again(checkpoint, tmp_path):
    path = tmp_path / "half.safetensors"
    export(resolve(Recipe(steps=[HALF]), checkpoint), path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    trained = load_file(path)
    trained["fc.weight"] += 1.0
    save_file(trained, path, metadata)
    with open_checkpoint(path) as opened:
        assert resolve(Recipe(), opened).counts["fc.weight"] == (0, 120)
