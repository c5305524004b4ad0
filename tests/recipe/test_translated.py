"""Every message about recipes is translated completely."""

from __future__ import annotations

import pytest
import torch
from foreign import foreign, untranslated
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import Cancelled, CheckpointError, RecipeError, StepError
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.amounts import parse_amounts, with_amount
from prune_gui.recipe.batch import checkpoints_in
from prune_gui.recipe.recipe import Step

pytestmark = pytest.mark.usefixtures("foreign_language")

TENSORS = {"w": torch.ones(2, 2), "b": torch.ones(3), "steps": torch.tensor([1, 2])}


@pytest.fixture
def checkpoint(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path / "model.safetensors") as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "a: b: c",  # the message is that of PyYAML or of libyaml
            (
                "mapping values are not allowed here",
                "mapping values are not allowed in this context",
            ),
        ),
        ("a: \0", ("U+0000",)),
        ("just words", ("Recipe",)),
        ("version: 2", ("version",)),
        ("folder: /tmp", ("folder",)),
        ("protect: ['']", ("protect",)),
        ("protect: ['size>x']", ("protect", "size>x", "size")),
        ("steps: [3]", ("Step",)),
        ("steps: [{method: l2, targets: [a]}]", ("l2", "prune-gui methods")),
        ("steps: [{method: identity}]", ("targets",)),
        ("steps: [{method: identity, targets: []}]", ("targets",)),
        ("steps: [{method: l1_unstructured, targets: [a], amount: 1.5}]", ("amount",)),
        ("steps: [{method: l1_unstructured, targets: [a], amount: -1}]", ("amount",)),
        ("steps: [{method: l1_unstructured, targets: [a], colour: red}]", ("colour",)),
        (
            "steps: [{method: l1_unstructured, targets: [a], scope: nowhere}]",
            ("scope", "local", "global", "row"),
        ),
        ("steps: [{method: n_m, targets: [a], n: 5}]", ("m", "n")),
        ("steps: [{method: channels, targets: [a], channels: 4-2}]", ("channels",)),
        ("steps: [{method: channels, targets: [a], channels: x}]", ("channels", "x")),
        ("steps: [{method: channels, targets: [a], channels: [1, 1]}]", ("channels",)),
        (
            "steps: [{method: l1_unstructured, targets: [a], importance: x, moved_from: y}]",
            ("importance", "moved_from"),
        ),
    ],
)
def test_the_error_for_an_invalid_recipe_is_translated(text, names):
    from prune_gui.pruning.methods import METHODS

    for source in (None, "recipe.yaml"):
        with pytest.raises(RecipeError) as caught:
            Recipe.from_yaml(text, source=source)
        assert untranslated(str(caught.value), "recipe.yaml", *METHODS, *names) == []


def test_the_error_for_an_unreadable_recipe_is_translated(tmp_path):
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "bytes.yaml", tmp_path / "nowhere.yaml"):
        with pytest.raises(RecipeError) as caught:
            Recipe.load(path)
        assert untranslated(str(caught.value), str(path), "No such file or directory") == []
    step = Step.model_validate({"method": "identity", "targets": ["*"]})
    with pytest.raises(RecipeError) as caught:
        Recipe().with_steps((step,) * 251)
    assert untranslated(str(caught.value)) == []


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ({"method": "identity", "targets": ["x*"]}, ("x*",)),
        ({"method": "identity", "targets": ["steps"]}, ("steps",)),
        ({"method": "identity", "targets": ["b"]}, ("b",)),
        ({"method": "identity", "targets": ["*", "!w"]}, ("b",)),
        ({"method": "l1_unstructured", "targets": ["w"], "amount": 5}, ("w",)),
        ({"method": "n_m", "targets": ["w"], "dim": 0, "m": 3, "n": 1}, ("w",)),
        ({"method": "channels", "targets": ["w"], "channels": [2]}, ("w",)),
        ({"method": "custom_from_mask", "targets": ["w"], "mask": "masks.safetensors"}, ("w",)),
        ({"method": "custom_from_mask", "targets": ["w"], "mask": "empty.safetensors"}, ("w",)),
        (
            {"method": "l1_unstructured", "targets": ["w"], "importance": "masks.safetensors"},
            ("w",),
        ),
    ],
)
def test_the_error_of_a_step_is_translated(checkpoint, step, names):
    folder = checkpoint.path.parent
    save_file({"w": torch.ones(3, 3)}, folder / "masks.safetensors")
    save_file({"v": torch.ones(3, 3)}, folder / "empty.safetensors")
    for key in ("mask", "importance"):
        if key in step:
            step = {**step, key: str(folder / step[key])}
            names = (*names, step[key])
    with pytest.raises(StepError) as caught:
        resolve(Recipe(steps=[step], protect=["b"]), checkpoint)
    assert untranslated(str(caught.value), *names) == []


def test_a_name_with_braces_is_unchanged_in_every_message(tmp_path):
    name = "{0} {name!r} {{x}}"
    save_file({name: torch.ones(3)}, tmp_path / "model.safetensors")
    step = {"method": "l1_unstructured", "targets": ["*"], "amount": 4}
    with (
        open_checkpoint(tmp_path / "model.safetensors") as checkpoint,
        pytest.raises(StepError) as caught,
    ):
        resolve(Recipe(steps=[step]), checkpoint)
    told = foreign("{}: Cannot prune {} units: only {} remain.").format(name, 4, 3)
    assert str(caught.value) == foreign("Step {}: {}").format(1, told)


def test_remarks_are_translated(checkpoint):
    steps = [
        {"method": "l1_unstructured", "targets": ["w", "b", "typo"], "max_sparsity": 0.25},
        {"method": "l1_unstructured", "targets": ["w"], "amount": 1.0},
    ]
    resolution = resolve(Recipe(steps=steps, protect=["b"]), checkpoint)
    first, second = (outcome.notes for outcome in resolution.outcomes)
    assert list(first) == ["typo", "b", "w"]
    for told in (*first.values(), *second.values()):
        assert untranslated(told) == []


def test_the_warning_about_few_remaining_elements_is_translated(tmp_path):
    save_file({"w": torch.ones(1000)}, tmp_path / "model.safetensors")
    step = {"method": "l1_unstructured", "targets": ["w"], "amount": 998, "max_sparsity": 0.998}
    with open_checkpoint(tmp_path / "model.safetensors") as checkpoint:
        [outcome] = resolve(Recipe(steps=[step]), checkpoint).outcomes
    assert foreign("; ") in outcome.notes["w"]  # two remarks in one
    assert untranslated(outcome.notes["w"]) == []


def test_errors_of_resolution_lookups_are_translated(checkpoint):
    resolution = resolve(Recipe(), checkpoint)
    asked = (
        lambda: resolution.mask("nobody"),
        lambda: resolution.mask("w", (slice(None),)),
        lambda: resolution.explain("w", (2, 0)),
    )
    for ask in asked:
        with pytest.raises(RecipeError) as caught:
            ask()
        assert untranslated(str(caught.value), str(checkpoint.path), "nobody", "w") == []


def test_errors_of_writing_are_translated(checkpoint, tmp_path):
    resolution = resolve(Recipe(), checkpoint)
    with pytest.raises(RecipeError) as caught:
        export(resolution, tmp_path / "out.safetensors", "masks")
    assert untranslated(str(caught.value)) == []
    with pytest.raises(CheckpointError) as caught:
        export(resolution, tmp_path / "out.safetensors", shard_size=100)
    assert untranslated(str(caught.value), str(tmp_path / "out.safetensors")) == []


def test_the_error_for_a_folder_without_checkpoints_is_translated(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError) as caught:
            checkpoints_in(folder)
        assert untranslated(str(caught.value), str(folder), "No such file or directory") == []


@pytest.mark.parametrize("text", ["", "much", "101%", "1 to 5 by 0", "0 to 9999 by 1"])
def test_the_error_for_an_invalid_amount_is_translated(text):
    with pytest.raises(ValueError, match="⟦") as caught:
        parse_amounts(text)
    assert untranslated(str(caught.value), text) == []


@pytest.mark.parametrize(
    "step",
    [{"method": "threshold", "value": 0.5}, {"method": "l1_unstructured", "amount": 0.5}],
)
def test_the_error_for_a_rejected_amount_is_translated(step):
    with pytest.raises(RecipeError) as caught:
        with_amount(Step.model_validate({**step, "targets": ["w"]}), 1.5)
    assert untranslated(str(caught.value)) == []


@pytest.mark.parametrize("pattern", ["dtype>x", "size>x"])
def test_the_error_for_an_invalid_condition_is_translated(pattern, checkpoint):
    with pytest.raises(RecipeError) as caught:
        Recipe.from_yaml(f"steps: [{{method: identity, targets: ['{pattern}']}}]")
    field, _, _ = pattern.partition(">")
    assert untranslated(str(caught.value), pattern, field, "targets") == []


def test_the_message_of_a_cancelled_job_is_translated():
    assert untranslated(str(Cancelled())) == []
