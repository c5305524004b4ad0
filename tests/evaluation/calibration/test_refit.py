"""Corrections of a model in memory, layer by layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cosine_similarity
from torch.nn.utils import prune

import prune_gui
from prune_gui.errors import RecordingError
from prune_gui.recipe.correction.corrected_values import refitted

ROOT = Path(__file__).parents[3]
TEXTS = [ROOT / "resources/guide/guide.md", *sorted((ROOT / "docs/how-to").glob("*.md"))]
BATCHES, BATCH, TOKENS = 20, 16, 16


def batches_of(text: str, vocabulary: list[str]) -> list[torch.Tensor]:
    """Return batches of token ids, (batch, tokens); words that are no tokens are left out."""
    numbers = {token: number for number, token in enumerate(vocabulary)}
    words = [numbers[word] for word in text.lower().split() if word in numbers]
    ids = torch.tensor(words).unfold(0, TOKENS, TOKENS)
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))
    return list(ids[order].split(BATCH))


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_refit_of_minilm_brings_its_outputs_closer_to_the_dense_ones(real_models, tmp_path):
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    folder = real_models / "minilm"
    model = transformers.BertModel(transformers.BertConfig.from_pretrained(folder)).eval()
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    text = "\n".join(path.read_text(encoding="utf-8") for path in TEXTS)
    batches = batches_of(text, vocabulary)
    recorded, held_out = batches[:BATCHES], batches[BATCHES:]

    def outputs() -> torch.Tensor:
        return torch.cat([model(ids).last_hidden_state for ids in held_out])

    targets = ["encoder.layer.[01].*.weight", "!*LayerNorm*"]
    prune = {"method": "balanced", "targets": targets, "amount": 0.7}
    refit = {"method": "refit", "targets": targets, "moments": "second_moments.safetensors"}
    with torch.no_grad():
        dense = outputs()
        with prune_gui.record(model, "second_moments") as recording:
            for ids in recorded:
                model(ids)
        recording.save(tmp_path)
        similarities = []
        for steps in ([prune], [prune, refit]):
            recipe = prune_gui.Recipe.validated({"steps": steps}, "recipe", tmp_path)
            out = tmp_path / "out.safetensors"
            with prune_gui.open_checkpoint(folder / "model.safetensors") as checkpoint:
                prune_gui.export(prune_gui.resolve(recipe, checkpoint), out, overwrite=True)
            model.load_state_dict(load_file(out), strict=False)
            similarities.append(float(cosine_similarity(outputs(), dense, dim=-1).mean()))
    before, after = similarities
    assert after > before + 0.01


@pytest.fixture
def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


@pytest.fixture
def batches() -> list[torch.Tensor]:
    return list(torch.randn(120, 8, generator=torch.Generator().manual_seed(1)).split(40))


def masks_of(network: nn.Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return {
        name: torch.rand(network.get_parameter(name).shape, generator=generator) < 0.5
        for name in ("0.weight", "2.weight")
    }


def test_each_layer_is_solved_for_the_inputs_of_the_corrected_layers(network, batches):
    masks = masks_of(network)
    dense = {name: network.get_parameter(name).detach().clone() for name in masks}
    notes = prune_gui.refit(network, masks, batches)
    assert notes == {"0.weight": "", "2.weight": ""}
    inputs = torch.cat(batches)
    for name, layer in (("0.weight", network[:1]), ("2.weight", network[2:])):
        mask = masks[name]
        expected, _ = refitted(dense[name], mask, inputs.T @ inputs, 0.01, transposed=False)
        weight = network.get_parameter(name)
        torch.testing.assert_close(weight[mask], expected[mask])
        assert (weight[~mask] == 0).all()
        inputs = layer(inputs).relu().detach()


def test_modules_that_torch_pruned_stay_pruned(network, batches):
    dense = network(torch.cat(batches)).detach()
    for layer in (network[0], network[2]):
        prune.l1_unstructured(layer, "weight", 0.5)
    before = network(torch.cat(batches)).detach()
    mask = network[0].weight_mask.clone()
    prune_gui.refit(network, None, batches)
    after = network(torch.cat(batches)).detach()
    assert torch.equal(network[0].weight_mask, mask)
    assert ((network[0].weight == 0) == (mask == 0)).all()
    assert (after - dense).square().sum() < 0.7 * (before - dense).square().sum()


def test_a_mask_that_does_not_fit_is_named(network, batches):
    with pytest.raises(RecordingError, match=r"mask of 0\.weight has shape"):
        prune_gui.refit(network, {"0.weight": torch.ones(2, 2)}, batches)
    with pytest.raises(RecordingError, match="No layer with a mask ran"):
        prune_gui.refit(network, {}, batches)


def test_inputs_that_are_not_finite_are_an_error_that_names_the_layer(network, batches):
    with pytest.raises(RecordingError, match=r"inputs of 0\.weight are not finite"):
        prune_gui.refit(network, masks_of(network), [batches[0] / 0])
