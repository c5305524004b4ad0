"""Every message about recipes is translated completely."""

from __future__ import annotations

import pytest
import torch
from foreign import foreign, untranslated
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import RecipeError, StepError
from prune_gui.recipe import Recipe, resolve
from prune_gui.recipe.amounts import parse_amounts

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


@pytest.mark.parametrize("text", ["", "much", "101%", "1 to 5 by 0", "0 to 9999 by 1"])
def test_the_error_for_an_invalid_amount_is_translated(text):
    with pytest.raises(ValueError, match="⟦") as caught:
        parse_amounts(text)
    assert untranslated(str(caught.value), text) == []
