"""Texts for steps and numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

import prune_gui
from prune_gui import number_formats
from prune_gui.gui import formatting


@given(st.integers(1, 10**12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_sparsity_shows_0_and_100_percent_only_if_exact(counts):
    pruned, total = counts
    text = number_formats.sparsity(pruned, total)
    assert (text == "0.0 %") == (pruned == 0)
    assert (text == "100.0 %") == (pruned == total)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1_500, "1.5 k"), (22_713_728, "22.7 M"), (8 * 10**9, "8.0 G")],
)
def test_large_numbers_have_a_unit_prefix(number, text):
    assert number_formats.short_count(number) == text


@pytest.mark.parametrize(
    ("method", "parameters", "text"),
    [
        ("l1_unstructured", {"scope": "global"}, "L1 unstructured, global, 50 %"),
        ("l1_unstructured", {"amount": 1}, "L1 unstructured, local, 1 weight"),
        ("l1_unstructured", {"amount": 1200}, "L1 unstructured, local, 1,200 weights"),
        (
            "ln_structured",
            {"amount": 8, "n": "inf", "dim": 1, "amount_of": "reach"},
            "Ln structured, local, dim 1, 8 channels, in total, n inf",
        ),
        (
            "l1_unstructured",
            {"importance": "/a/b.safetensors"},
            "L1 unstructured, local, 50 %, b.safetensors",
        ),
        ("lamp", {"amount": 0.7, "max_sparsity": 0.9}, "LAMP, 70 %, ≤ 90 %"),
        ("erk", {}, "ERK, 50 %"),
        ("threshold", {"value": 0.01}, "Threshold, below 0.01"),
        (
            "threshold",
            {"value": 2, "relative_to": "std"},
            "Threshold, below 2.0, in standard deviations",
        ),
        ("n_m", {}, "n:m, input channels, 2:4"),
        ("n_m", {"n": 1, "m": 8, "tail": "keep"}, "n:m, input channels, 1:8, tail keep"),
        ("block", {"amount": 1, "n": 1}, "Block, local, 1 block, 4 x 4, n 1"),
        ("block", {"amount": 7, "width": 32}, "Block, local, 7 blocks, 4 x 32"),
        ("channels", {"channels": [5]}, "Channels, output channels, 1 channel: 5"),
        ("channels", {"channels": [3, 7, 8, 9]}, "Channels, output channels, 4 channels: 3, 7-9"),
        ("channels", {"channels": range(0, 4000, 2)}, "Channels, output channels, 2,000 channels"),
        (
            "random_unstructured",
            {"amount": 1 / 3, "seed": 3},
            "Random unstructured, local, 33.3333 %, seed 3",
        ),
        ("custom_from_mask", {"mask": "masks.pt"}, "Custom mask from a file, masks.pt"),
        ("identity", {}, "Identity"),
    ],
)
def test_the_title_of_a_step_contains_its_main_and_non_default_values(
    make_step, method, parameters, text
):
    assert formatting.title(make_step(method, **parameters)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (0.2, "1 s"), (90, "90 s"), (91, "2 min"), (9000, "3 h")]
)
def test_a_duration_is_rounded_up(seconds, text):
    assert number_formats.duration(seconds) == text


def test_equal_remarks_are_merged_and_many_are_counted():
    some = {"a": "odd", "b": "odd", "c": "even"}
    assert formatting.notes(some) == ["a and 1 more: odd", "c: even"]
    many = {str(i): f"note {i}" for i in range(10)}
    assert formatting.notes(many)[-1] == "and 7 more"
    assert len(formatting.notes(many)) == 4
    assert formatting.short_notes(some) == ["odd: 2 targets", "even: 1 target"]
    assert formatting.short_notes({"": "all", **some})[:2] == ["all", "odd: 2 targets"]
    assert formatting.notes({"a": "odd", "": "all"}) == ["a: odd", "all"]
    assert len(formatting.short_notes(many)) == 3


HALF = {"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([HALF], ""),
        ([HALF, {"method": "identity", "targets": ["w"]}], ""),
        ([HALF | {"amount": 0}], "Prunes nothing: the amount is 0."),
        (
            [HALF | {"amount": 0.01}],
            "Prunes nothing: the amount is less than one unit of each target.",
        ),
        (
            [{"method": "n_m", "targets": ["w"]}] * 2,
            "Prunes nothing: step 1 already did.",
        ),
        (
            [HALF, {"method": "threshold", "targets": ["w"], "value": 9}, HALF],
            "Prunes nothing: steps 1, 2 already did.",
        ),
        (
            [{"method": "threshold", "targets": ["w"], "value": 0.5}],
            "Prunes nothing: nothing in the targets meets its condition.",
        ),
    ],
)
def test_a_step_that_prunes_nothing_has_a_reason(tmp_path, steps, reason):
    save_file({"w": torch.arange(1.0, 9).reshape(2, 4)}, tmp_path / "a.safetensors")
    with prune_gui.open_checkpoint(tmp_path / "a.safetensors") as checkpoint:
        resolution = prune_gui.resolve(prune_gui.Recipe(steps=steps), checkpoint)
        assert formatting.idle_reason(resolution, len(steps)) == reason


def test_a_correction_tells_how_many_parameters_it_corrects(tmp_path):
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2))
    save_file(layer.state_dict(), tmp_path / "dense.safetensors")
    with prune_gui.record(layer, "means") as recording:
        layer(torch.randn(4, 3))
    (path,) = recording.save(tmp_path)
    fields = {"method": "bias_correction", "targets": ["*"], "means": str(path)}
    recipe = prune_gui.Recipe.validated({"steps": [fields]}, "recipe", None)
    with prune_gui.open_checkpoint(tmp_path / "dense.safetensors") as checkpoint:
        resolution = prune_gui.resolve(recipe, checkpoint)
    assert formatting.outcome(resolution, 1) == "corrects 1 parameter"
    assert formatting.prospect(resolution, 1) == "Corrects 1 parameter; prunes nothing."
