"""The contents of an exported file as other programs read it."""

from __future__ import annotations

import pytest
import torch
from applied import applied
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils import prune as torch_prune

from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export

HALF = {"method": "l1_unstructured", "targets": ["*.weight"], "amount": 0.5, "scope": "global"}
FLOATS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


@pytest.fixture
def model(tmp_path):
    """A small network's file, its keys in no particular order."""
    torch.manual_seed(0)
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
