"""Compact files as other programs read them."""

import importlib.util
import json

import pytest
import torch
from applied import CancelAfter
from compact_networks import (
    CONFIG,
    Mlp,
    blocks_group,
    ffn_architecture,
    neurons,
    resolved,
    saved_mlp,
    with_plan,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sharded_files import divided, write_shards
from written_files import contents, tensors_in

from prune_gui.architecture.tables import SpaceRule
from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import Cancelled, CheckpointError, RecipeError
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.recipe import Recipe, export, sizes, verify
from prune_gui.recipe.compaction.network import Architecture

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.float8_e4m3fn]


def compacted(source, out, steps=None, architecture=None, **options):
    """Write the compact form without the first neuron of each layer, and return the masks."""
    with open_checkpoint(source) as checkpoint:
        resolution = planned(checkpoint, steps, architecture)
        export(resolution, out, "compact", **options)
        return {name: resolution.mask(name) for name in resolution.layers}


def planned(checkpoint, steps=None, architecture=None):
    steps = neurons("*", [0]) if steps is None else steps
    known = architecture or ffn_architecture(config=CONFIG)
    return with_plan(resolved(checkpoint, steps), known)


@pytest.fixture
def source(tmp_path):
    return saved_mlp(tmp_path / "in")


def octets(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_shards(folder, state, count):
    return write_shards(folder, divided(state, lambda i, _: f"m-{i % count}.safetensors"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sets(st.integers(0, 7), min_size=1, max_size=7),
    st.sampled_from(DTYPES),
    st.sampled_from([0, 1, 3]),
    st.booleans(),
)
def test_kept_slices_are_the_bytes_of_the_finalized_form(
    tmp_path_factory, gone, dtype, shards, also_elements
):
    folder = tmp_path_factory.mktemp("c")
    source = saved_mlp(folder / "in", dtype)
    path = in_shards(folder / "shards", source.state, shards) if shards else source.folder
    steps = neurons("*", sorted(gone))
    if also_elements:
        steps.append({"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.3})
    compacted(path, folder / "out", steps)
    with open_checkpoint(path) as checkpoint:
        export(resolved(checkpoint, steps), folder / "f.safetensors")
    kept = torch.tensor([i for i in range(8) if i not in gone])
    written, masked = tensors_in(folder / "out"), load_file(folder / "f.safetensors")
    assert written.keys() == masked.keys()
    for name, tensor in masked.items():
        dim = 1 if "down.weight" in name else 0
        raw = tensor.view(torch.uint8).reshape(*tensor.shape, -1)
        expected = raw if "down.bias" in name else raw.index_select(dim, kept)
        assert octets(written[name]) == expected.flatten().tolist()
        assert written[name].dtype == dtype
    if dtype != torch.float8_e4m3fn:
        small, whole = Mlp(widths=(len(kept),) * 3).to(dtype), Mlp().to(dtype)
        small.load_state_dict(written)
        whole.load_state_dict(masked)
        x = torch.randn(5, 6, dtype=dtype)
        tolerance = {"rtol": 1e-2, "atol": 1e-1} if dtype.itemsize < 4 else {}
        torch.testing.assert_close(small(x), whole(x), **tolerance)
    assert not verify(folder / "out").problems


def test_a_folder_with_other_files_in_inner_folders_is_not_replaced(source, tmp_path):
    (source.folder / "1_Pooling").mkdir()
    (source.folder / "1_Pooling" / "config.json").write_text("{}")
    out = tmp_path / "out"
    compacted(source.folder, out)
    (out / "1_Pooling" / "mine.pdf").write_text("precious")
    before = contents(out)
    with pytest.raises(CheckpointError, match="1_Pooling"):
        compacted(source.folder, out, overwrite=True)
    assert contents(out) == before


def test_a_single_file_gets_the_config_that_fits_if_there_is_none(source, tmp_path):
    out = tmp_path / "out" / "small.safetensors"
    out.parent.mkdir()
    with pytest.raises(Cancelled):
        compacted(source.folder, out, cancel=CancelAfter(0))
    assert not contents(out.parent)
    compacted(source.folder, out)
    assert sorted(contents(out.parent)) == ["config.json", "small.safetensors"]
    config = json.loads((out.parent / "config.json").read_text())
    assert config == {**CONFIG, "intermediate_size": 7}


def test_a_config_beside_a_single_file_stays_and_the_note_tells_what_to_change(source, tmp_path):
    (tmp_path / "config.json").write_text('{"of": "another"}')
    with open_checkpoint(source.folder) as checkpoint:
        resolution = planned(checkpoint)

        def note(folder):
            return sizes(resolution, folder / "small.safetensors")["compact"].note

        assert "intermediate_size: 7" in note(tmp_path)
        export(resolution, tmp_path / "small.safetensors", "compact", overwrite=True)
        assert (tmp_path / "config.json").read_text() == '{"of": "another"}'
        (tmp_path / "new").mkdir()
        before = note(tmp_path / "new")
        assert "is saved beside it" in before
        export(resolution, tmp_path / "new" / "small.safetensors", "compact")
        assert note(tmp_path / "new") == before


def test_the_links_of_a_cache_of_hugging_face_are_followed(source, tmp_path):
    (tmp_path / "hub" / "blobs").mkdir(parents=True)
    snapshot = tmp_path / "hub" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (source.folder / "vocab.txt").write_text("a")
    for path in source.folder.iterdir():
        blob = path.rename(tmp_path / "hub" / "blobs" / f"hash-of-{path.stem}")
        (snapshot / path.name).symlink_to(blob)
    compacted(snapshot, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir() if not path.is_symlink()}
    assert names == {"config.json", "model.safetensors", "vocab.txt"}


def test_a_reparametrized_input_becomes_plain_tensors(source, tmp_path):
    steps = neurons("*", [0, 4])
    with open_checkpoint(source.folder) as checkpoint:
        export(resolved(checkpoint, steps), tmp_path / "pairs.safetensors", "reparametrized")
    compacted(tmp_path / "pairs.safetensors", tmp_path / "b.safetensors", [])
    compacted(source.folder, tmp_path / "a.safetensors", steps)
    first, second = load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "b.safetensors")
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_metadata_have_the_recipe_and_what_is_pruned_of_the_rest(source, tmp_path):
    extra = {"method": "channels", "targets": ["layers.0.up.weight"], "dim": 1, "channels": "0"}
    steps = [*neurons("*", [0]), extra]
    out = tmp_path / "out.safetensors"
    compacted(source.folder, out, steps)
    with safe_open(out, "pt") as file:
        metadata = file.metadata()
    assert Recipe.from_yaml(metadata["prune_gui.recipe"]) == Recipe(steps=steps)
    assert json.loads(metadata["prune_gui.pruned"])["layers.0.up.weight"] == 7
    with open_checkpoint(out) as checkpoint:
        assert resolved(checkpoint, []).counts["layers.0.up.weight"] == (7, 42)


def test_the_loader_script_gives_each_layer_its_width_and_is_strict(source, tmp_path):
    steps = [*neurons(0, [0, 1, 2]), *neurons(2, [7])]
    masks = compacted(source.folder, tmp_path / "out", steps)
    load = script(tmp_path / "out" / "load_model.py").load
    model = load(Mlp())
    assert [layer.up.out_features for layer in model.layers] == [5, 8, 7]
    assert [layer.down.in_features for layer in model.layers] == [5, 8, 7]
    masked = Mlp()
    masked.load_state_dict(
        {name: value * masks.get(name, 1) for name, value in source.state.items()}
    )
    x = torch.randn(4, 6)
    torch.testing.assert_close(model(x), masked(x))
    assert torch.equal(load(Mlp().to("meta"))(x), model(x))
    with pytest.raises(RuntimeError, match=r"Missing key.*layers\.3"):
        load(Mlp(widths=(8, 8, 8, 8)))
    odd = Mlp()
    odd.layers[0].up = torch.nn.EmbeddingBag(8, 6)
    with pytest.raises(RuntimeError, match=r"layers\.0\.up\.weight of a EmbeddingBag cannot"):
        load(odd)


def test_the_loader_script_ignores_what_the_model_computes_itself(source, tmp_path):
    save_file(source.state | {"ids": torch.arange(4)}, source.folder / "model.safetensors")
    compacted(source.folder, tmp_path / "out", neurons(0, [1]))
    load = script(tmp_path / "out" / "load_model.py").load
    with pytest.raises(RuntimeError, match=r"Unexpected key.*ids"):
        load(Mlp())
    model = Mlp()
    model.register_buffer("ids", torch.zeros(3), persistent=False)
    assert load(model).ids.tolist() == [0, 0, 0]


def test_the_loader_script_resizes_convolutions_and_batch_norms(tmp_path):
    def network():
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.Conv2d(8, 8, 3, groups=8),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 4, 2),
        )

    save_file(network().state_dict(), tmp_path / "m.safetensors")
    names = [f"1.{leaf}" for leaf in ("weight", "bias", "running_mean", "running_var")]
    names += ["0.weight", "0.bias", "2.weight", "2.bias"]
    members = (*(Member(name, 0) for name in names), Member("4.weight", 1, 0, 4, "consumes"))
    group = CoupledGroup("channels", "0", 8, members)
    rules = {
        "channels": ffn_architecture(config=None).spaces["ffn"].model_copy(update={"config": ()})
    }
    gone = [1, 2, 6]
    columns = [4 * unit + i for unit in gone for i in range(4)]
    steps = [
        {"method": "channels", "targets": names, "dim": 0, "channels": "1,2,6"},
        {"method": "channels", "targets": ["4.weight"], "dim": 1, "channels": columns},
    ]
    masks = compacted(
        tmp_path / "m.safetensors", tmp_path / "o.safetensors", steps, Architecture(rules, (group,))
    )
    model = script(tmp_path / "load_o_safetensors.py").load(network()).eval()
    assert (model[2].groups, model[2].in_channels, model[1].num_features) == (5, 5, 5)
    masked = network().eval()
    state = load_file(tmp_path / "m.safetensors")
    masked.load_state_dict({name: value * masks.get(name, 1) for name, value in state.items()})
    x = torch.randn(2, 3, 6, 6)
    torch.testing.assert_close(model(x), masked(x))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_nested_torch_file_with_ties_stays_one(tmp_path, suffix):
    state = dict(Mlp().state_dict())
    state["tied.weight"] = state["layers.1.up.weight"]
    training = {"model": state, "epoch": 3}
    torch.save(training, tmp_path / "in.pt")
    out = tmp_path / f"out{suffix}"
    compacted(tmp_path / "in.pt", out, architecture=ffn_architecture(config=None))
    expected = state["layers.1.up.weight"][1:]
    if suffix == ".pt":
        content = torch.load(out, weights_only=True)
        assert content["epoch"] == 3
        written = content["model"]
        tied, layer = written["tied.weight"], written["layers.1.up.weight"]
        assert tied.untyped_storage().data_ptr() == layer.untyped_storage().data_ptr()
    else:
        written = load_file(out)
    assert list(written) == list(state) or suffix == ".safetensors"
    assert torch.equal(written["tied.weight"], expected)
    assert torch.equal(written["layers.1.up.weight"], expected)


@pytest.mark.parametrize("shards", [0, 2])
def test_the_computed_size_is_that_of_the_written_weights(source, tmp_path, shards):
    path = in_shards(tmp_path / "shards", source.state, 2) if shards else source.folder
    out = tmp_path / "out" if shards else tmp_path / "out.safetensors"
    with open_checkpoint(path) as checkpoint:
        resolution = planned(checkpoint)
        told = sizes(resolution, out)["compact"]
        export(resolution, out, "compact")
    files = [out] if not shards else [f for f in out.iterdir() if f.name != "config.json"]
    assert told.nbytes == sum(file.stat().st_size for file in files)
    assert "FFN neurons: 21 of 24" in told.note


def test_a_folder_is_replaced_as_a_whole_even_that_of_the_input(source, tmp_path):
    (source.folder / "README.md").write_text("kept")
    compacted(source.folder, source.folder, overwrite=True)
    files = contents(source.folder)
    assert sorted(files) == ["README.md", "config.json", "model.safetensors"]
    assert json.loads(files["config.json"]) == {**CONFIG, "intermediate_size": 7}
    assert load_file(source.folder / "model.safetensors")["layers.0.up.bias"].shape == (7,)


def test_a_shard_that_lost_all_of_its_tensors_is_not_written(tmp_path):
    state = saved_mlp(tmp_path / "in").state
    of_layer = divided(state, lambda _, key: f"m-{key.split('.')[1]}.safetensors")
    folder = write_shards(tmp_path / "shards", of_layer)
    rule = SpaceRule.model_validate({"title": "layers", "config": [{"field": "n_layers"}]})
    steps = [
        {"method": "channels", "targets": ["layers.1.down.*"], "dim": 0, "channels": "0-5"},
        {"method": "channels", "targets": ["layers.1.up.*"], "dim": 0, "channels": "0-7"},
    ]
    architecture = Architecture({"layers": rule}, (blocks_group(3),), {}, {}, {"n_layers": 3})
    compacted(folder, tmp_path / "out", steps, architecture)
    with open_checkpoint(tmp_path / "out") as checkpoint:
        assert [path.name for path in checkpoint.files] == ["m-0.safetensors", "m-2.safetensors"]
        assert torch.equal(checkpoint.read("layers.1.up.weight"), state["layers.2.up.weight"])
        assert set(checkpoint.tensors) == {key for key in state if ".2." not in key}
    assert not (tmp_path / "out" / "m-1.safetensors").exists()


def test_what_would_not_load_is_not_written_unless_asked(source, tmp_path):
    rules = ffn_architecture(minimum="most")
    architecture = Architecture(rules.spaces, rules.groups, {"most": ("8",)}, {}, CONFIG)
    with pytest.raises(RecipeError, match=r"cannot be made compact: .*at least 8 must"):
        compacted(source.folder, tmp_path / "out", architecture=architecture)
    assert not (tmp_path / "out").exists()


def test_formats_that_describe_the_layers_themselves_are_refused(source, tmp_path):
    with pytest.raises(CheckpointError, match=r"save the compact form as \.safetensors or \.pt"):
        compacted(source.folder, tmp_path / "o.npz")
