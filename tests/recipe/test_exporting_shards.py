"""Exporting to a folder of shards, from one, and the promises that hold for a whole folder."""

import hashlib
import json
import sys
from pathlib import Path

import pytest
import torch
from applied import CancelAfter, applied, exported
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sharded_files import divided, write_shards
from system_faults import raising
from written_files import contents

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.write import atomic
from prune_gui.errors import Cancelled, CheckpointError
from prune_gui.recipe import Recipe, export

HALF = {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5, "scope": "global"}
INDEX = "model.safetensors.index.json"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges folders")


def written(source, out, *steps, form="finalized", **options):
    exported(source, out, Recipe(steps=steps or [HALF]), form, **options)


def loaded(folder: Path, index: str = INDEX) -> dict[str, torch.Tensor]:
    """Read shards as transformers does: by the index, each file by itself."""
    weight_map = json.loads((folder / index).read_text())["weight_map"]
    load = load_file if index == INDEX else lambda path: torch.load(path, weights_only=True)
    shards = {name: load(folder / name) for name in set(weight_map.values())}
    assert {path.name for path in folder.iterdir()} >= {*shards, index}
    return {key: shards[name][key] for key, name in weight_map.items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[key].dtype == other[key].dtype and torch.equal(one[key], other[key]) for key in one
    )


@pytest.fixture
def demo(demo_checkpoint, tmp_path) -> Path:
    """The demo checkpoint, unpruned, in three shards."""
    tensors = load_file(demo_checkpoint)
    names = [f"model-{i:05}-of-00003.safetensors" for i in (1, 2, 3)]
    shards = divided(tensors, lambda i, _: names[i * 3 // len(tensors)])
    folder = write_shards(tmp_path / "demo", shards)
    for name, held in shards.items():
        save_file(held, folder / name, {"format": "pt", "own": name})
    weight_map = {key: name for name, held in shards.items() for key in held}
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total, "by": "hand"}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    (folder / "config.json").write_text('{"model_type": "cnn"}')
    return folder


@pytest.fixture
def torch_shards(tmp_path) -> Path:
    """Two shards of torch, with ties, a parameter, a sparse tensor, and one that is not listed."""
    folder = tmp_path / "torch"
    folder.mkdir()
    tied = torch.nn.Parameter(torch.arange(6.0))
    first = {"a.weight": tied, "n": torch.tensor(3), "b.weight": tied, "loose": tied}
    second = {"s": torch.eye(2).to_sparse(), "c.weight": torch.ones(4), "note": "kept"}
    torch.save(first, folder / "pytorch_model-00001-of-00002.bin")
    torch.save(second, folder / "pytorch_model-00002-of-00002.bin")
    names = dict.fromkeys(["a.weight", "n", "b.weight"], "pytorch_model-00001-of-00002.bin")
    names |= dict.fromkeys(["s", "c.weight"], "pytorch_model-00002-of-00002.bin")
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": names}))
    return folder


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
def test_each_tensor_stays_in_its_shard_with_the_values_of_a_single_file(
    demo, demo_checkpoint, tmp_path, form
):
    written(demo_checkpoint, tmp_path / "one.safetensors", form=form)
    written(demo, tmp_path / "out", form=form)
    assert same(loaded(tmp_path / "out"), load_file(tmp_path / "one.safetensors"))
    before = json.loads((demo / INDEX).read_text())["weight_map"]
    after = json.loads((tmp_path / "out" / INDEX).read_text())
    for key, name in after["weight_map"].items():
        assert before[key.removesuffix("_orig").removesuffix("_mask")] == name
        with safe_open(tmp_path / "out" / name, "pt") as shard:
            assert key in shard.keys()  # noqa: SIM118 - it is no mapping
    total = sum(tensor.nbytes for tensor in loaded(tmp_path / "out").values())
    assert after["metadata"]["total_size"] == total
    with open_checkpoint(tmp_path / "out") as again:
        assert again.warnings == ()
    assert ("config.json" in contents(tmp_path / "out")) == (form != "masks")
    is_same = (tmp_path / "out" / INDEX).read_bytes() == (demo / INDEX).read_bytes()
    assert is_same == (form == "finalized")


def test_every_shard_keeps_its_metadata_and_records_the_recipe(demo, tmp_path):
    written(demo, tmp_path / "out")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(demo.glob("*.safetensors"))
    ]
    fingerprint = hashlib.sha256("".join(lines).encode()).hexdigest()
    for path in (tmp_path / "out").glob("*.safetensors"):
        with safe_open(path, "pt") as shard:
            said = shard.metadata()
        assert (said["format"], said["own"]) == ("pt", path.name)
        assert said["prune_gui.input"] == f"sha256:{fingerprint}"
        assert Recipe.from_yaml(said["prune_gui.recipe"]) == Recipe(steps=[HALF])
        assert said.keys() >= {"prune_gui.version", "prune_gui.form"}


def test_shards_can_be_merged_into_one_file_and_split_again(demo, demo_checkpoint, tmp_path):
    written(demo, tmp_path / "one.safetensors")
    written(demo, tmp_path / "one.pt")
    written(demo_checkpoint, tmp_path / "split", shard_size=100_000)
    expected = load_file(tmp_path / "one.safetensors")
    assert same(torch.load(tmp_path / "one.pt", weights_only=True), expected)
    assert same(loaded(tmp_path / "split"), expected)
    written(demo, tmp_path / "split again", shard_size=100_000)
    again = set(contents(tmp_path / "split again"))
    assert again == {*contents(tmp_path / "split"), "config.json"}


@settings(max_examples=25)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 80))
def test_a_shard_ends_only_where_the_next_tensor_does_not_fit(tmp_path_factory, sizes, shard_size):
    folder = tmp_path_factory.mktemp("split")
    tensors = {f"t{i}.weight": torch.ones(size) for i, size in enumerate(sizes)}
    save_file(tensors, folder / "in.safetensors")
    step = {**HALF, "targets": ["*"], "scope": "local"}
    step = {**step, "enabled": any(sizes)} if any(sizes) else {**step, "enabled": False}
    written(folder / "in.safetensors", folder / "out", step, shard_size=shard_size)
    with open_checkpoint(folder / "out") as opened, open_checkpoint(folder / "in.safetensors") as i:
        assert opened.keys == i.keys
        count = len(opened.files)
        shards = [list(load_file(path).values()) for path in opened.files]
    held = [sum(tensor.nbytes for tensor in shard) for shard in shards]
    for number, (shard, size) in enumerate(zip(shards, held, strict=True), start=1):
        assert opened.files[number - 1].name == f"model-{number:05}-of-{count:05}.safetensors"
        assert size <= shard_size or len(shard) == 1
        if number < count:
            assert size + shards[number][0].nbytes > shard_size


def test_torch_shards_stay_torch_shards(torch_shards, tmp_path):
    out, index = tmp_path / "out", "pytorch_model.bin.index.json"
    written(torch_shards, out, {**HALF, "scope": "local"})
    first = torch.load(out / "pytorch_model-00001-of-00002.bin", weights_only=True)
    second = torch.load(out / "pytorch_model-00002-of-00002.bin", weights_only=True)
    assert list(first) == ["a.weight", "n", "b.weight", "loose"]
    assert list(second) == ["s", "c.weight", "note"]
    assert first["a.weight"].tolist() == [0, 0, 0, 3, 4, 5]
    assert first["a.weight"].data_ptr() == first["b.weight"].data_ptr()
    assert isinstance(first["b.weight"], torch.nn.Parameter)
    assert second["s"].is_sparse
    before = json.loads((torch_shards / index).read_text())["weight_map"]
    assert json.loads((out / index).read_text())["weight_map"] == before
    with open_checkpoint(out) as again:
        [warning] = again.warnings
        assert "'loose' in pytorch_model-00001-of-00002.bin" in warning
        assert again.metadata["prune_gui.form"] == "finalized"


@pytest.mark.parametrize(
    ("form", "options", "expected", "is_listed"),
    [
        ("finalized", {}, {"a.weight", "loose.weight", "b.weight"}, False),
        ("reparametrized", {}, {"a.weight_orig", "loose.weight_orig", "b.weight_mask"}, False),
        ("masks", {}, {"a.weight", "loose.weight", "b.weight"}, True),
        ("finalized", {"shard_size": 20}, {"a.weight", "loose.weight", "b.weight"}, True),
    ],
)
def test_a_tensor_that_the_index_does_not_list_is_pruned_and_saved(
    tmp_path, form, options, expected, is_listed
):
    folder, out, values = tmp_path / "in", tmp_path / "out", torch.arange(4.0)
    write_shards(
        folder, {"m-1.safetensors": {"a.weight": values}, "m-2.safetensors": {"b.weight": values}}
    )
    save_file({"a.weight": values, "loose.weight": values + 1}, folder / "m-1.safetensors")
    written(folder, out, {**HALF, "scope": "local"}, form=form, **options)
    shards = [load_file(path) for path in out.glob("*.safetensors")]
    found = {key: tensor for shard in shards for key, tensor in shard.items()}
    assert found.keys() >= expected
    if form == "finalized":
        assert found["loose.weight"].tolist() == [0, 0, 3, 4]
    listed = json.loads((out / INDEX).read_text())["weight_map"]
    assert any(key.startswith("loose") for key in listed) == is_listed
    with open_checkpoint(out) as again:
        assert "loose.weight" in again.tensors
        assert bool(again.warnings) != is_listed


@pytest.mark.parametrize(("form", "is_kept"), [("finalized", True), ("reparametrized", False)])
def test_the_index_counts_parameters_only_while_it_is_right(demo, tmp_path, form, is_kept):
    index = json.loads((demo / INDEX).read_text())
    index["metadata"]["total_parameters"] = 7
    (demo / INDEX).write_text(json.dumps(index))
    written(demo, tmp_path / "out", form=form)
    metadata = json.loads((tmp_path / "out" / INDEX).read_text())["metadata"]
    assert ("total_parameters" in metadata, metadata["by"]) == (is_kept, "hand")


def test_torch_shards_are_split_with_their_ties_but_not_with_special_tensors(
    torch_shards, tmp_path
):
    for out, size in [("anew", 8), ("one.pt", None), ("one.safetensors", None)]:
        with pytest.raises(CheckpointError, match=r"'s' \(sparse\) cannot be stored"):
            written(torch_shards, tmp_path / out, shard_size=size)
    tied = torch.arange(6.0)
    torch.save({"a.weight": tied, "c": torch.ones(9), "b.weight": tied}, tmp_path / "in.pt")
    written(tmp_path / "in.pt", tmp_path / "out", shard_size=30)
    found = loaded(tmp_path / "out", "pytorch_model.bin.index.json")
    assert list(found) == ["a.weight", "b.weight", "c"]
    assert found["a.weight"].data_ptr() == found["b.weight"].data_ptr()
    assert len(contents(tmp_path / "out")) == 3
    with open_checkpoint(tmp_path / "out") as again:
        assert again.warnings == ()


@pytest.mark.parametrize("name", ["out", "Llama-3.1-8B", "out/", "out.safetensors/", "there.pt"])
def test_an_output_path_that_means_a_folder_becomes_one(demo, tmp_path, name):
    (tmp_path / "there.pt").mkdir()
    written(demo, f"{tmp_path}/{name}")
    assert set(contents(tmp_path / name)) == set(contents(demo))


def test_a_non_empty_folder_is_replaced_only_with_overwrite(demo, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="is not empty"):
        written(demo, out)
    assert contents(out) == {"notes.txt": b"mine"}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CheckpointError, match="is a file"):
        written(demo, tmp_path / "file", overwrite=True)
    assert {path.name for path in tmp_path.iterdir()} == {"demo", "out", "file"}


@linux_only
def test_overwriting_replaces_the_shards_and_keeps_the_other_files(demo, tmp_path):
    out = tmp_path / "out"
    written(demo, out, shard_size=20_000)
    (out / "config.json").write_text("{}")
    out.chmod(0o750)
    (out / "notes.txt").write_text("mine")
    written(demo, out, overwrite=True)
    assert set(contents(out)) == {*contents(demo), "notes.txt"}
    assert (out / "config.json").read_bytes() == (demo / "config.json").read_bytes()
    assert out.stat().st_mode & 0o777 == 0o750
    assert {path.name for path in tmp_path.iterdir()} == {"demo", "out"}


@linux_only
def test_the_input_itself_may_be_the_output(demo, demo_checkpoint, tmp_path):
    written(demo_checkpoint, tmp_path / "one.safetensors")
    with applied(demo, Recipe(steps=[HALF])) as resolution:
        export(resolution, demo, overwrite=True)
        key = resolution.checkpoint.keys[-1]
        assert torch.equal(resolution.checkpoint.read_key(key), load_file(demo_checkpoint)[key])
    assert same(loaded(demo), load_file(tmp_path / "one.safetensors"))
    assert (demo / "config.json").exists()


@pytest.mark.parametrize("stranger", ["optimizer.pt", "adapter.safetensors", "logs/", "link.json"])
def test_files_that_are_not_shards_are_never_deleted(demo, tmp_path, stranger):
    out = tmp_path / "out"
    written(demo, out)
    if stranger.endswith("/"):
        (out / stranger).mkdir()
    elif stranger.startswith("link"):
        (out / stranger).symlink_to(demo / "config.json")
    else:
        (out / stranger).write_text("weights")
    before = contents(out)
    with pytest.raises(CheckpointError, match=stranger.rstrip("/")):
        written(demo, out, overwrite=True)
    assert contents(out) == before


def test_without_atomic_exchange_only_a_new_folder_is_written(demo, tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "exchange", raising(OSError(22, "Invalid argument")))
    out = tmp_path / "out"
    written(demo, out)
    before = contents(out)
    with pytest.raises(CheckpointError, match="Choose another folder"):
        written(demo, out, overwrite=True)
    assert contents(out) == before
    assert {path.name for path in tmp_path.iterdir()} == {"demo", "out"}


@linux_only
def test_cancelling_at_any_time_leaves_only_the_old_folder(demo, tmp_path):
    out = tmp_path / "out"
    with applied(demo, Recipe(steps=[HALF])) as resolution:
        flag = CancelAfter(10**9)
        export(resolution, out, cancel=flag)
        before = contents(out)
        moments = 10**9 - flag.times
        assert moments > 20
        for moment in range(0, moments, 3):
            for target in (out, tmp_path / "new"):
                with pytest.raises(Cancelled):
                    export(resolution, target, overwrite=True, cancel=CancelAfter(moment))
        assert contents(out) == before
    assert {path.name for path in tmp_path.iterdir()} == {"demo", "out"}


def test_a_mount_point_is_not_replaced(demo, tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(atomic.os.path, "ismount", lambda path: path.name == "disk")
    with pytest.raises(CheckpointError, match="is a mount point"):
        written(demo, tmp_path / "disk")
    written(demo, tmp_path / "disk" / "in it")
