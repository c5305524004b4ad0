"""Units ranked by the error of their removal: compared with solving without each of them."""

import pytest
import torch
from safetensors.torch import save_file
from small_bert import FFN, HEADS, HIDDEN, LAYERS, bert_tensors
from torch import nn

import prune_gui
from prune_gui import Recipe, open_checkpoint, resolve
from prune_gui.errors import RecipeError
from prune_gui.recipe.correction.unit_errors import DAMPING

CONSUMERS = {"ffn": "output.dense", "heads": "attention.output.dense"}
REMOVED = {"ffn": FFN // 2, "heads": HEADS // 2}
WIDTH = {"ffn": 1, "heads": HIDDEN // HEADS}


@pytest.fixture
def inputs():
    """Return the inputs of the layers that read each space, with channels that correlate."""
    generator = torch.Generator().manual_seed(5)
    sizes = {"ffn": FFN, "heads": HIDDEN}
    return {
        space: torch.randn(200, size, generator=generator)
        @ torch.randn(size, size, generator=generator)
        for space, size in sizes.items()
    }


@pytest.fixture
def recorded(tmp_path, inputs):
    """Return the path of the second moments of the inputs."""
    network = nn.Module()
    for layer in range(LAYERS):
        for space, path in CONSUMERS.items():
            parent = network
            *folders, last = f"encoder.layer.{layer}.{path}".split(".")
            for folder in folders:
                if not hasattr(parent, folder):
                    parent.add_module(folder, nn.Module())
                parent = getattr(parent, folder)
            parent.add_module(last, nn.Linear(inputs[space].shape[1], HIDDEN))
    with torch.no_grad(), prune_gui.record(network, "second_moments") as recording:
        for layer in range(LAYERS):
            for space, path in CONSUMERS.items():
                network.get_submodule(f"encoder.layer.{layer}.{path}")(inputs[space])
    recording.save(tmp_path)
    return str(tmp_path / "second_moments.safetensors")


def least_error(weight, moments, kept):
    """Return the squared error of the outputs with the best weights in the kept columns."""
    best = torch.zeros_like(weight)
    best[:, kept] = torch.linalg.solve(moments[kept][:, kept], (weight @ moments)[:, kept].T).T
    return float((((best - weight) @ moments) * (best - weight)).sum())


def harmless_units(weight, moments, space):
    """Return the units to remove: an eighth at a time, or one by one if there are fewer."""
    width, removed = WIDTH[space], []
    units = weight.shape[1] // width

    def error(unit):
        kept = [one for one in range(weight.shape[1]) if one // width not in {*removed, unit}]
        return least_error(weight, moments, torch.tensor(kept))

    rounds = min(8, units)
    for later in reversed(range(rounds // 2, rounds)):
        left = [unit for unit in range(units) if unit not in removed]
        removed += sorted(left, key=error)[: len(left) - units * later // rounds]
    return removed


@pytest.mark.parametrize("space", CONSUMERS)
def test_the_units_go_whose_removal_harms_the_corrected_layer_least(bert, recorded, inputs, space):
    step = {"method": "coupled", "space": space, "amount": REMOVED[space], "targets": ["*"]}
    resolution = resolve(Recipe(steps=[step | {"importance": recorded}]), bert)
    moments = inputs[space].double().T @ inputs[space].double()
    moments += DAMPING * moments.diagonal().mean() * torch.eye(len(moments))
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}.{CONSUMERS[space]}.weight"
        pruned = (~resolution.mask(name)).all(0).nonzero().ravel() // WIDTH[space]
        expected = harmless_units(bert_tensors()[name].double(), moments, space)
        assert set(pruned.tolist()) == set(expected)


def test_moments_of_other_layers_are_refused(bert, tmp_path):
    network = nn.Sequential(nn.Linear(4, 2))
    with torch.no_grad(), prune_gui.record(network, "second_moments") as recording:
        network(torch.randn(9, 4))
    recording.save(tmp_path)
    step = {"method": "coupled", "targets": ["*"]}
    recipe = Recipe(steps=[step | {"importance": str(tmp_path / "second_moments.safetensors")}])
    with pytest.raises(RecipeError, match="of all layers that read "):
        resolve(recipe, bert)


def test_moments_that_are_no_moments_are_an_error_that_names_the_layer(bert, recorded):
    with open_checkpoint(recorded) as file:
        tensors = {name: torch.full(one.shape, -1.0) for name, one in file.tensors.items()}
        metadata = dict(file.metadata)
    save_file(tensors, recorded, metadata)
    recipe = Recipe(steps=[{"method": "coupled", "targets": ["*"], "importance": recorded}])
    with pytest.raises(RecipeError, match=r"inputs of encoder.layer.0.output.dense.weight are not"):
        resolve(recipe, bert)
