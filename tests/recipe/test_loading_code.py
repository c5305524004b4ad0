"""The loader script of a reparametrized checkpoint, and the code to paste for each form."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from pathlib import Path
from runpy import run_path

import pytest
import torch
from safetensors.torch import save_file
from sharded_files import TORCH_INDEX, divided, write_shards
from torch import nn
from torch.nn.utils import prune

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.recipe import OutputPath, Recipe, export, loader_path, resolve
from prune_gui.recipe.compaction.plan import compact_plan
from prune_gui.recipe.extra_files import loader_text
from prune_gui.recipe.loading_code import GIVEN, loading_code
from prune_gui.recipe.output import OutputOptions

HALF = {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5, "scope": "global"}

MODEL = """
import torch
from torch import nn

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)))
        self.head = nn.Linear(4, 11, bias=False)
        self.head.weight = self.embed.weight
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens)) * self.gain)
"""

RUN = """
import runpy, sys
import torch
from torch.nn.utils import prune
torch.manual_seed(1)
model = Tied()
assert not prune.is_pruned(model)
loaded = runpy.run_path(sys.argv[1])["load"](model)
assert loaded is model and prune.is_pruned(model)
assert "prune_gui" not in sys.modules
masks = {name: mask for name, mask in model.named_buffers() if name.endswith("_mask")}
output = model(torch.arange(11))
for module in model.modules():
    for name in [key.removesuffix("_mask") for key, _ in module.named_buffers(recurse=False)]:
        prune.remove(module, name)
torch.save({"masks": masks, "output": output.detach(), "state": model.state_dict()}, sys.argv[2])
"""


@pytest.fixture
def model() -> nn.Module:
    namespace: dict[str, type[nn.Module]] = {}
    exec(MODEL, namespace)
    return namespace["Tied"]()


def as_safetensors(model: nn.Module, folder: Path) -> Path:
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    del state["head.weight"]  # as Hugging Face omits tied tensors
    save_file(state, folder / "in.safetensors")
    return folder / "in.safetensors"


def as_torch(model: nn.Module, folder: Path) -> Path:
    torch.save(model.state_dict(), folder / "in.pt")
    return folder / "in.pt"


def as_nested_torch(model: nn.Module, folder: Path) -> Path:
    torch.save({"epoch": 7, "nets": {"it's": model.state_dict()}}, folder / "in.pt")
    return folder / "in.pt"


def as_torch_shards(model: nn.Module, folder: Path) -> Path:
    state = model.state_dict()
    shards = divided(state, lambda _, key: f"pytorch_model-{len(key) % 2}.bin")
    return write_shards(folder, shards) / TORCH_INDEX


def run(loader: Path, folder: Path) -> dict[str, object]:
    """Return the state of a new model after the loader ran in a separate Python process."""
    (folder / "run.py").write_text(MODEL + RUN)
    command = [sys.executable, "-I", folder / "run.py", loader, folder / "found.pt"]
    subprocess.run(list(map(str, command)), check=True, timeout=100, cwd=folder)
    return torch.load(folder / "found.pt")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("save", "out", "shard_size", "loader"),
    [
        (as_safetensors, "it's \\ 1.5.safetensors", None, "load_it_s___1_5_safetensors.py"),
        (as_safetensors, "split", 100, "split/load_model.py"),
        (as_safetensors, "out.pt", None, "load_out_pt.py"),
        (as_torch, "out.safetensors", None, "load_out_safetensors.py"),
        (as_torch, "out.ckpt", None, "load_out_ckpt.py"),
        (as_nested_torch, "out.pt", None, "load_out_pt.py"),
        (as_nested_torch, "out.safetensors", None, "load_out_safetensors.py"),
        (as_nested_torch, "split", 100, "split/load_pytorch_model.py"),
        (as_torch_shards, "out", None, "out/load_pytorch_model.py"),
    ],
)
def test_the_loader_loads_masks_and_weights_into_a_new_model(
    tmp_path, model, save, out, shard_size, loader
):
    with open_checkpoint(save(model, tmp_path)) as checkpoint:
        resolution = resolve(Recipe(steps=[HALF]), checkpoint)
        target = OutputPath.of(checkpoint, tmp_path / out, OutputOptions(shard_size=shard_size))
        export(resolution, tmp_path / out, "reparametrized", shard_size=shard_size)
        assert loader_path(target) == tmp_path / loader
        assert (tmp_path / loader).read_text() == loader_text(checkpoint, target)
        expected = {name: resolution.mask(name) for name in resolution.layers}
        aliases = {n: checkpoint.tensors[n].aliases for n in expected}
    found = run(tmp_path / loader, tmp_path)
    for name, mask in expected.items():
        for each in (name, *aliases[name]):
            assert torch.equal(found["masks"][f"{each}_mask"].bool(), mask)
    assert len(found["masks"]) == 4  # both names of the tied weight
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in expected:
                parameter.mul_(expected[name])
    assert torch.equal(found["output"], model(torch.arange(11)))
    for name, tensor in model.state_dict().items():
        assert torch.equal(found["state"][name], tensor)


@pytest.fixture
def resolution(tmp_path, model):
    with open_checkpoint(as_safetensors(model, tmp_path)) as checkpoint:
        yield resolve(Recipe(steps=[HALF]), checkpoint)


def test_the_loader_fills_a_model_on_meta_and_names_what_stays_there(resolution, tmp_path, model):
    export(resolution, tmp_path / "out.safetensors", "reparametrized")
    load = run_path(str(tmp_path / "load_out_safetensors.py"))["load"]
    expected = load(copy.deepcopy(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.device("meta"):
            on_meta = type(model)()
        load(on_meta)
    tokens = torch.arange(11)
    assert torch.equal(on_meta(tokens), expected(tokens))
    assert on_meta.head.weight_orig is on_meta.embed.weight_orig
    with torch.device("meta"):
        partly = type(model)()
    for number in range(7):
        partly.register_buffer(f"computed{number}", torch.ones(2, device="meta"), persistent=False)
    with pytest.warns(UserWarning, match=r"^7 tensors .*meta.*: computed0, .*computed4, \.\.\.$"):
        load(partly)


def left(folder: Path) -> dict[str, str]:
    return {
        path.name: path.read_text() for path in folder.iterdir() if path.name != "in.safetensors"
    }


def test_an_existing_loader_is_replaced_only_with_overwrite(resolution, tmp_path):
    (tmp_path / "load_out_safetensors.py").write_text("mine")
    with pytest.raises(CheckpointError, match=r"load_out_safetensors\.py already exists"):
        export(resolution, tmp_path / "out.safetensors", "reparametrized")
    assert left(tmp_path) == {"load_out_safetensors.py": "mine"}
    export(resolution, tmp_path / "out.safetensors", "reparametrized", overwrite=True)
    assert "def load(" in (tmp_path / "load_out_safetensors.py").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders")
def test_replacing_a_folder_replaces_its_loader(resolution, tmp_path):
    export(resolution, tmp_path / "out", "reparametrized", shard_size=100)
    (tmp_path / "out" / "load_model.py").write_text("old")
    (tmp_path / "out" / "mine.py").write_text("mine")
    with pytest.raises(CheckpointError, match="is not empty"):
        export(resolution, tmp_path / "out", "reparametrized", shard_size=100)
    export(resolution, tmp_path / "out", "reparametrized", overwrite=True, shard_size=90)
    assert "def load(" in (tmp_path / "out" / "load_model.py").read_text()
    assert (tmp_path / "out" / "mine.py").read_text() == "mine"


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


def test_the_code_resizes_a_network_that_no_config_describes(on_disk, tmp_path, network):
    checkpoint = on_disk(network.state_dict())
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
