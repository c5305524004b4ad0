"""The code to paste that loads a saved checkpoint: each form, in files, shards and folders."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.compaction.plan import compact_plan
from prune_gui.recipe.loading_code import GIVEN, loading_code

UNITS = {"method": "channels", "targets": ["0.weight", "0.bias"], "dim": 0, "channels": "0-3"}
READERS = {"method": "channels", "targets": ["2.weight"], "dim": 1, "channels": "0-3"}


@pytest.fixture
def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))


def loaded(code: str, model: nn.Module | None = None) -> nn.Module:
    """Run the code as a user pastes it, and return the model."""
    found = {"model": model}
    exec(code, found)
    return found["model"]


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
@pytest.mark.parametrize(
    ("name", "out", "shard_size"),
    [
        ("in.safetensors", "it's.safetensors", None),
        ("in.pt", "out.pt", None),
        ("nested.pt", "out.pt", None),
        ("in.safetensors", "shards", 100),
    ],
)
def test_the_code_loads_what_was_saved(tmp_path, network, form, name, out, shard_size):
    state = network.state_dict()
    save_file(state, tmp_path / "in.safetensors")
    torch.save(state, tmp_path / "in.pt")
    torch.save({"epoch": 1, "model": state}, tmp_path / "nested.pt")
    with open_checkpoint(tmp_path / name) as checkpoint:
        resolution = resolve(Recipe(steps=[UNITS]), checkpoint)
        export(resolution, tmp_path / out, form, shard_size=shard_size)
        masks = {each: resolution.mask(each) for each in resolution.layers}
    with open_checkpoint(tmp_path / out) as saved:
        code = loading_code(saved)
    assert ("import torch\n" in code) == ("torch." in code.replace("safetensors.torch", ""))
    found = loaded(code, copy.deepcopy(network))
    assert prune.is_pruned(found) is (form != "finalized")
    found(torch.zeros(6))  # torch multiplies with the masks before it computes
    for each, mask in masks.items():
        module, _, parameter = each.rpartition(".")
        weights = getattr(found.get_submodule(module), parameter)
        assert torch.equal(weights, network.get_parameter(each) * mask)


def test_the_code_resizes_a_network_that_no_config_describes(tmp_path, network):
    save_file(network.state_dict(), tmp_path / "in.safetensors")
    with open_checkpoint(tmp_path / "in.safetensors") as checkpoint:
        resolution = resolve(Recipe(steps=[UNITS, READERS]), checkpoint)
        export(resolution, tmp_path / "out.safetensors", "compact")
    with open_checkpoint(tmp_path / "out.safetensors") as saved:
        found = loaded(loading_code(saved), copy.deepcopy(network))
    assert found[0].weight.shape == (8, 6)


@pytest.fixture
def bert(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=12, max_position_embeddings=10,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def neurons(layer: int, which: str) -> list[dict[str, object]]:
    """Return steps that prune neurons of a feed-forward layer in all of their tensors."""
    step = {"method": "channels", "channels": which}
    path = f"encoder.layer.{layer}."
    return [
        {**step, "targets": [f"{path}intermediate.dense.*"], "dim": 0},
        {**step, "targets": [f"{path}output.dense.weight"], "dim": 1},
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "out", "other"),
    [
        ("finalized", "folder", "0-3"),
        ("finalized", "bert/small.safetensors", "0-3"),
        ("reparametrized", "folder", "0-3"),
        ("compact", "folder", "0-3"),
        ("compact", "bert/small.safetensors", "0-3"),
        ("compact", "alone/small.safetensors", "0-3"),
        ("compact", "folder", "0-1"),
        ("compact", "bert/small.safetensors", "0-1"),
    ],
)
def test_the_code_builds_a_model_of_transformers(tmp_path, bert, form, out, other):
    from transformers import BertModel

    (tmp_path / "alone").mkdir()
    with open_checkpoint(bert) as checkpoint:
        resolution = resolve(Recipe(steps=neurons(0, "0-3") + neurons(1, other)), checkpoint)
        export(resolution, tmp_path / out, form)
        changes = compact_plan(resolution, Monitor()).changes if form == "compact" else {}
    with open_checkpoint(tmp_path / out) as saved:
        code = loading_code(saved, changes)
        stored = saved.read("encoder.layer.1.output.dense.bias")
    given = BertModel.from_pretrained(bert) if GIVEN in code else None
    assert (given is None) == (form != "reparametrized")
    found = loaded(code, given)
    width = found.encoder.layer[0].intermediate.dense.weight.shape[0]
    assert width == (8 if form == "compact" else 12)
    assert torch.equal(found.encoder.layer[1].output.dense.bias, stored)
