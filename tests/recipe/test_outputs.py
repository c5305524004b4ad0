"""Where pruned files are written, in which format, and what other programs read in them."""

from pathlib import Path

import pytest
import torch
from applied import CancelAfter, applied, exported
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sharded_files import write_shards
from torch import nn
from torch.nn.utils import prune as torch_prune

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import Cancelled, CheckpointError, RecipeError
from prune_gui.monitor import Monitor
from prune_gui.recipe import OutputPath, Recipe, export, resolve, verify
from prune_gui.recipe.contents_note import contents_note
from prune_gui.recipe.output import OutputOptions
from prune_gui.recipe.several_files import BatchRow, checkpoints_in, outputs, prune_file

RECIPE = Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "targets": ["w", "v"], "amount": 0.5}]}
)
PARTS = st.sampled_from(["a", "A", "b", "a-pruned", "a-pruned-2"])


def made(path, **tensors):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors or {"w": torch.arange(8.0)}, path)
    return path


def batch(paths, folder, monitor=None, **options):
    """Apply the recipe to some checkpoints, as the window does."""
    outs = outputs(paths, folder) if folder is not None else [None] * len(paths)
    return [
        prune_file(RECIPE, path, out, OutputOptions(**options), monitor or Monitor())
        for path, out in zip(paths, outs, strict=True)
    ]


def test_one_bad_file_does_not_stop_the_others(tmp_path):
    (tmp_path / "notes.safetensors").write_text("hello")
    first = made(tmp_path / "first.safetensors")
    other = made(tmp_path / "other.safetensors", x=torch.ones(4))
    last = made(tmp_path / "last.safetensors", w=torch.ones(4), v=torch.ones(2))
    paths = [first, tmp_path / "notes.safetensors", other, tmp_path / "gone.safetensors", last]
    out = tmp_path / "out"
    out.mkdir()
    rows = batch(paths, out)
    assert [row.path for row in rows] == paths
    assert rows[0] == BatchRow(first, 1, ("v",), 4, 8, out / "first-pruned.safetensors")
    assert rows[4] == BatchRow(last, 2, (), 3, 6, out / "last-pruned.safetensors")
    assert "notes.safetensors" in rows[1].error
    assert rows[2].targets == 0
    assert rows[2].unmatched == ("w", "v")
    assert rows[2].error.startswith("Step 1: no parameter matches w, v")
    assert "does not exist" in rows[3].error
    assert sorted(path.name for path in out.iterdir()) == [
        "first-pruned.safetensors",
        "last-pruned.safetensors",
    ]
    assert load_file(rows[0].out)["w"].tolist() == [0, 0, 0, 0, 4, 5, 6, 7]


def test_without_a_folder_nothing_is_written(tmp_path):
    path = made(tmp_path / "model.safetensors")
    [row] = batch([path], None)
    assert (row.pruned, row.total, row.out) == (4, 8, None)
    assert list(tmp_path.iterdir()) == [path]


@given(
    inputs=st.lists(
        st.builds(
            lambda folder, stem, suffix: Path("/in", folder, stem + suffix),
            PARTS,
            PARTS,
            st.sampled_from([".safetensors", ".pt", ".safetensors.index.json"]),
        ),
        max_size=8,
    ),
    folder=st.sampled_from([Path("/out"), Path("/in/a"), Path("/in")]),
)
def test_no_two_outputs_are_the_same_and_none_is_an_input(inputs, folder):
    found = outputs(inputs, folder)
    assert len({str(path).casefold() for path in found}) == len(inputs)
    assert not {str(path).casefold() for path in found} & {str(p).casefold() for p in inputs}
    assert all(path.parent == folder for path in found)
    for path, out in zip(inputs, found, strict=True):
        assert out.suffix == ("" if path.suffix == ".json" else path.suffix)


def test_shards_are_written_to_a_folder_named_after_theirs(tmp_path):
    exported(made(tmp_path / "whole.safetensors"), tmp_path / "net", Recipe(), shard_size=100)
    [index] = checkpoints_in(tmp_path / "net")
    [row] = batch([index], tmp_path)
    assert row.error == ""
    assert row.out == tmp_path / "net-pruned"
    with open_checkpoint(row.out) as pruned:
        assert int((pruned.read("w") == 0).sum()) == 4


def test_a_folder_yields_its_checkpoints_or_those_of_its_subfolders(tmp_path):
    several = [made(tmp_path / "runs" / f"{name}.safetensors") for name in ("model", "step1")]
    (tmp_path / "runs" / "notes.txt").touch()
    assert checkpoints_in(tmp_path / "runs") == several
    (tmp_path / "empty").mkdir()
    assert checkpoints_in(tmp_path) == several[:1]
    with pytest.raises(CheckpointError, match="contain no checkpoint"):
        checkpoints_in(tmp_path / "empty")
    with pytest.raises(CheckpointError, match="cannot be read"):
        checkpoints_in(tmp_path / "nowhere")


def test_a_cancelled_batch_writes_no_more_files(tmp_path):
    path = made(tmp_path / "model.safetensors")
    with pytest.raises(Cancelled):
        batch([path], tmp_path, Monitor(cancel=CancelAfter(0)))
    assert list(tmp_path.iterdir()) == [path]


def test_torch_files_are_compressed_and_others_written_as_usual(tmp_path):
    weights = torch.zeros(300, 400)
    save_file({"w": weights, "v": torch.ones(3)}, tmp_path / "one.safetensors")
    torch.save({"w": weights, "v": torch.ones(3)}, tmp_path / "two.pt")
    paths = [tmp_path / "one.safetensors", tmp_path / "two.pt"]
    one, two = batch(paths, tmp_path, compressed=True)
    assert (one.error, two.error) == ("", "")
    assert one.out.stat().st_size > weights.nbytes
    assert two.out.stat().st_size < weights.nbytes // 10
    assert torch.equal(torch.load(two.out, weights_only=True)["w"], weights)


TWO_OF_W = Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "targets": ["w"], "amount": 2}]}
)


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("model.pth.tar", "model-pruned.pth.tar"),
        ("model.pyth", "model-pruned.pyth"),
        ("model.PKL", "model-pruned.PKL"),
        ("model.model", "model-pruned.model"),
        ("model", "model-pruned"),
        ("model-v1.5", "model-v1-pruned.5"),
        ("model.pt.bak", "model-pruned.pt.bak"),
    ],
)
def test_a_copy_with_the_suffix_of_its_source_has_its_format(tmp_path, name, copy, legacy, form):
    torch.save({"w": torch.arange(4.0)}, tmp_path / name, _use_new_zipfile_serialization=not legacy)
    [out] = outputs([tmp_path / name], tmp_path)
    assert out.name == copy
    exported(tmp_path / name, out, TWO_OF_W, form)
    state = torch.load(out, weights_only=True)
    assert {
        "finalized": lambda: state["w"].tolist() == [0, 0, 2, 3],
        "reparametrized": lambda: state["w_mask"].tolist() == [0, 0, 1, 1],
        "masks": lambda: state["w"].tolist() == [False, False, True, True],
    }[form]()
    assert not verify(out).problems


@pytest.mark.parametrize(
    ("source", "out"),
    [
        ("model", "out/"),
        ("model", ""),
        ("model.pyth", ""),
        ("model", "out.tar"),
        ("model.pyth", "out"),
        ("model.pyth", "out.pkl"),
        ("model.yaml", "out.yaml"),
        ("model.csv", "out.csv"),
    ],
)
def test_other_names_are_refused(on_disk, tmp_path, source, out):
    checkpoint = on_disk({"w": torch.arange(4.0)}, source)
    says = "no suffix of a known format" if out else "is a folder"
    with pytest.raises(CheckpointError, match=says):
        export(resolve(TWO_OF_W, checkpoint), f"{tmp_path}/{out}")
    assert [path.name for path in tmp_path.iterdir()] == [source]


def test_a_known_suffix_decides_the_format_and_shards_are_in_a_folder(tmp_path):
    save_file({"w": torch.arange(4.0), "v": torch.ones(4)}, tmp_path / "model")
    with applied(tmp_path / "model", TWO_OF_W) as resolution:
        for name, is_folder, file_format in (("a", False, "safetensors"), ("a.pt", False, "torch")):
            target = OutputPath.of(resolution.checkpoint, tmp_path / name)
            assert (target.is_folder, target.format.name) == (is_folder, file_format)
        export(resolution, tmp_path / "out", shard_size=16)
        (tmp_path / "there").mkdir()
        with pytest.raises(CheckpointError, match="is a folder"):
            export(resolution, tmp_path / "there")
        export(resolution, tmp_path / "copy")
    assert len([*(tmp_path / "out").glob("*.safetensors")]) == 2
    assert load_file(tmp_path / "copy")["w"].tolist() == [0, 0, 2, 3]
    with open_checkpoint(tmp_path / "out") as checkpoint:
        assert OutputPath.of(checkpoint, tmp_path / "b").is_folder


@pytest.mark.parametrize("form", ["finalized", "masks"])
@pytest.mark.parametrize("name", ["m-2.safetensors", "link.safetensors"])
def test_a_shard_of_the_open_checkpoint_is_never_replaced_by_a_whole_one(tmp_path, name, form):
    shards = {f"m-{number}.safetensors": {f"w{number}": torch.ones(4)} for number in (1, 2)}
    folder = tmp_path / "in"
    write_shards(folder, shards)
    (folder / "link.safetensors").symlink_to("m-2.safetensors")
    with (
        open_checkpoint(folder) as checkpoint,
        pytest.raises(CheckpointError, match="one of the shards of the open checkpoint"),
    ):
        export(resolve(Recipe(), checkpoint), folder / name, form, overwrite=True)
    with open_checkpoint(folder) as checkpoint:
        assert [*checkpoint.tensors] == ["w1", "w2"]


WEIGHTS = {"a.weight": torch.ones(2, 2)}
STATE = {**WEIGHTS, "a._extra_state": b"scales", "note": "kept"}


NESTED = {"model": STATE, "epoch": 3, "optimizer": {"state": {}}}


def torch_file(content):
    def save(folder):
        torch.save(content, folder / "m.pt")
        return folder / "m.pt"

    return save


def safetensors(folder):
    save_file(WEIGHTS, folder / "m.safetensors", {"by": "hand"})
    return folder / "m.safetensors"


def torch_shards(folder):
    write_shards(folder / "shards", {"m-1.bin": WEIGHTS})
    torch.save(STATE, folder / "shards" / "m-1.bin")
    return folder / "shards"


def shards_with_metadata(folder):
    shards = {"m-1.safetensors": WEIGHTS, "m-2.safetensors": {"b.weight": torch.ones(2)}}
    write_shards(folder / "shards", shards)
    for number, (name, tensors) in enumerate(shards.items(), 1):
        metadata = {"part": str(number), "by": "hand"}
        save_file(tensors, folder / "shards" / name, metadata)
    return folder / "shards"


@pytest.mark.parametrize(
    ("source", "out", "shard_size", "lost"),
    [
        (
            torch_file(NESTED),
            "o.safetensors",
            None,
            ["epoch", "optimizer", "a._extra_state", "note"],
        ),
        (torch_file(NESTED), "o", 100, ["epoch", "optimizer", "a._extra_state", "note"]),
        (torch_file(NESTED), "o.pt", None, None),
        (torch_file(STATE), "o.npz", None, ["a._extra_state", "note"]),
        (torch_file(WEIGHTS), "o.safetensors", None, None),
        (safetensors, "o.pt", None, None),
        (torch_shards, "o.safetensors", None, ["a._extra_state", "note"]),
        (torch_shards, "o", 100, ["a._extra_state", "note"]),
        (torch_shards, "o", None, None),
        (shards_with_metadata, "o.safetensors", None, ["different metadata (part)"]),
        (shards_with_metadata, "o", 100, ["different metadata (part)"]),
        (shards_with_metadata, "o", None, None),
    ],
)
def test_what_is_lost_is_named(tmp_path, source, out, shard_size, lost):
    with open_checkpoint(source(tmp_path)) as checkpoint:
        target = OutputPath.of(checkpoint, tmp_path / out, OutputOptions(shard_size=shard_size))
        note = contents_note(resolve(Recipe(steps=[]), checkpoint), target, "finalized", ())
    if lost is None:
        assert "without" not in note
        assert "different" not in note
    else:
        assert ", ".join(lost) in note


def test_the_checksums_of_shards_are_not_lost_when_they_are_divided_anew(tmp_path):
    recipe = Recipe(steps=[{"method": "l1_unstructured", "targets": ["*"]}])
    with open_checkpoint(shards_with_metadata(tmp_path)) as checkpoint:
        export(resolve(recipe, checkpoint), tmp_path / "pruned")
    with open_checkpoint(tmp_path / "pruned") as checkpoint:
        assert checkpoint.differing_metadata == ("part",)


def test_an_unknown_form_is_refused(demo_checkpoint, tmp_path):
    with open_checkpoint(demo_checkpoint) as checkpoint:
        resolution = resolve(Recipe(), checkpoint)
        with pytest.raises(RecipeError, match=r"'mask' is no form \(did you mean masks\?\)\. Use "):
            export(resolution, tmp_path / "o.safetensors", form="mask")
    assert not list(tmp_path.iterdir())


HALF = {"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.5, "scope": "global"}
FLOATS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


@pytest.fixture
def model(tmp_path):
    """A small network's file, its keys in no particular order."""
    network = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(8, 3))
    tensors = {key: tensor.contiguous() for key, tensor in network.state_dict().items()}
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt", "author": "somebody"})
    return tmp_path / "model.safetensors"


def written(source, out, *steps, form="finalized", **options):
    with applied(source, Recipe(steps=steps or [HALF])) as resolution:
        export(resolution, out, form, **options)
        return resolution, {name: resolution.mask(name) for name in resolution.layers}


def octets(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def test_finalized_keeps_keys_order_types_and_metadata_and_every_other_byte(model, tmp_path):
    _, masks = written(model, tmp_path / "out.safetensors")
    before, after = load_file(model), load_file(tmp_path / "out.safetensors")
    with safe_open(model, "pt") as old, safe_open(tmp_path / "out.safetensors", "pt") as new:
        assert list(old.offset_keys()) == list(new.offset_keys())
        assert new.metadata()["author"] == "somebody"
        assert Recipe.from_yaml(new.metadata()["prune_gui.recipe"]) == Recipe(steps=[HALF])
        assert new.metadata()["prune_gui.input"].startswith("sha256:")
    assert set(masks) == {"0.weight", "1.weight", "2.weight"}
    for key, tensor in before.items():
        expected = torch.where(masks[key], tensor, 0.0) if key in masks else tensor
        assert octets(after[key]) == octets(expected)


@given(
    npst.arrays("float32", st.integers(1, 40), elements=st.floats(width=32)),
    st.sampled_from(FLOATS),
    st.floats(0, 1),
)
def test_pruned_elements_are_plus_zero_and_kept_elements_keep_their_bits(
    tmp_path_factory, values, dtype, amount
):
    folder = tmp_path_factory.mktemp("zeros")
    tensor = torch.from_numpy(values).to(dtype)
    save_file({"w": tensor}, folder / "in.safetensors")
    step = {"method": "l1_unstructured", "targets": ["w"], "amount": amount}
    _, masks = written(folder / "in.safetensors", folder / "out.safetensors", step)
    after = load_file(folder / "out.safetensors")["w"]
    size = dtype.itemsize
    for index, kept in enumerate(masks["w"].tolist()):
        position = slice(index * size, (index + 1) * size)
        assert octets(after)[position] == (octets(tensor)[position] if kept else bytes(size))


def test_reparametrized_loads_into_a_module_that_torch_prepared(model, tmp_path):
    written(model, tmp_path / "final.safetensors")
    written(model, tmp_path / "out.safetensors", form="reparametrized")
    network = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(8, 3))
    for module in network:
        torch_prune.identity(module, "weight")
    network.load_state_dict(load_file(tmp_path / "out.safetensors"))
    for module in network:
        torch_prune.remove(module, "weight")
    for key, tensor in load_file(tmp_path / "final.safetensors").items():
        assert torch.equal(network.state_dict()[key], tensor)


def test_a_reparametrized_file_opens_as_pruned_and_can_be_pruned_further(model, tmp_path):
    first, masks = written(model, tmp_path / "pair.safetensors", form="reparametrized")
    again, more = written(tmp_path / "pair.safetensors", tmp_path / "out.safetensors")
    assert (first.total[0], again.total[0]) == (50, 75)
    after = load_file(tmp_path / "out.safetensors")
    assert set(after) == set(load_file(model))
    for name, mask in masks.items():
        assert not (more[name] & ~mask).any()
        assert torch.equal(after[name] != 0, more[name])


def test_masks_are_boolean_and_only_of_pruned_parameters(model, tmp_path):
    _, masks = written(model, tmp_path / "masks.safetensors", form="masks")
    found = load_file(tmp_path / "masks.safetensors")
    assert found.keys() == masks.keys()
    assert all(torch.equal(found[name], masks[name]) for name in masks)
    step = {"method": "custom_from_mask", "targets": ["*.weight"]}
    _, same = written(
        model, tmp_path / "o.safetensors", {**step, "mask": str(tmp_path / "masks.safetensors")}
    )
    assert all(torch.equal(same[name], masks[name]) for name in masks)


def test_an_existing_file_is_replaced_only_with_overwrite(model, tmp_path):
    out = tmp_path / "out.safetensors"
    out.write_text("old")
    with pytest.raises(CheckpointError, match="already exists"):
        written(model, out)
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.safetensors",
        "out.safetensors",
    ]
    written(model, out, overwrite=True)
    assert load_file(out)


@pytest.mark.parametrize("form", ["finalized", "reparametrized", "masks"])
@pytest.mark.parametrize(("out", "shard_size"), [("out.safetensors", None), ("out", 10**5)])
def test_progress_of_a_save_rises_from_zero_to_the_total(
    demo_checkpoint, tmp_path, form, out, shard_size
):
    seen = []
    options = {"shard_size": shard_size, "progress": lambda *step: seen.append(step[0] / step[1])}
    written(demo_checkpoint, tmp_path / out, form=form, **options)
    assert seen[0] < 1
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1, abs=0.05)  # the header of the input also counts


def test_the_same_recipe_writes_the_same_bytes(model, tmp_path):
    for name in ("one", "two"):
        written(model, tmp_path / f"{name}.safetensors")
        written(model, tmp_path / f"{name}.pt")
    for suffix in ("safetensors", "pt"):
        one, two = (tmp_path / f"{name}.{suffix}" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()
