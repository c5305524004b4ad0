"""Finalized torch files: only the values of pruned parameters differ from the input, bit by bit."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from applied import applied
from torch import nn

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.torch import archive as torch_archive
from prune_gui.checkpoint.torch.archive import ALIGNMENT
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.recipe.sizes import sizes
from prune_gui.recipe.verifying import verify

OWN_RECORD = "prune_gui.json"
LEGACY = {"_use_new_zipfile_serialization": False}


@dataclass
class Settings:
    widths: list[int] = field(default_factory=lambda: [4, 8])


class Network(nn.Module):
    """A network of the owner's program, with tied weights and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings()
        self.first = nn.Linear(30, 20)
        self.norm = nn.BatchNorm1d(20)
        self.last = nn.Linear(20, 30)
        self.head = nn.Linear(20, 30)
        self.head.weight = self.last.weight


@pytest.fixture
def training() -> dict[str, object]:
    """Return what a training script saves: modules, an optimizer with its state, settings."""
    network, average = Network(), Network()
    optimizer = torch.optim.Adam(network.parameters())
    sum(parameter.sum() for parameter in network.parameters()).backward()
    optimizer.step()
    return {
        "model": network,
        "ema": average,
        "optimizer": optimizer.state_dict(),
        "settings": Settings(),
        "epoch": 3,
    }


def pruned(
    path: Path, out: Path, form="finalized", targets="*weight", state=None, **options: bool
) -> dict[str, torch.Tensor]:
    """Prune half of the weights, check the forecast of the size, and return the masks by name."""
    step = {"method": "l1_unstructured", "targets": [targets], "amount": 0.5}
    with applied(path, Recipe(steps=[step]), state) as resolution:
        export(resolution, out, form, **options)
        assert sizes(resolution, out)[form].nbytes == out.stat().st_size
        return {
            alias: resolution.mask(name)
            for name in resolution.layers
            for alias in (name, *resolution.checkpoint.tensors[name].aliases)
        }


def records(path: Path) -> dict[str, bytes]:
    """Return the records of an archive by name, after checking their checksums."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def changed(path: Path, out: Path) -> set[str]:
    """Return the names of the records that differ, without the program's own."""
    old, new = records(path), records(out)
    assert new.keys() == {*old, OWN_RECORD}
    return {name for name in old if old[name] != new[name]}


def deflated(path: Path) -> Path:
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    path.write_bytes(out.getvalue())
    return path


def check_state(new: Mapping[str, torch.Tensor], old: Mapping[str, torch.Tensor], masks) -> None:
    """Check that a state dict has the old values, exactly +0 where pruned."""
    assert list(new) == list(old)
    for key, tensor in old.items():
        expected = torch.where(masks[key], tensor, 0) if key in masks else tensor
        assert torch.equal(new[key], expected), key


@pytest.mark.parametrize("pack", [lambda path: path, deflated], ids=["stored", "deflated"])
def test_all_but_the_pruned_storages_stays_byte_for_byte(tmp_path, training, pack):
    path, out = tmp_path / "train.pt", tmp_path / "out.pt"
    torch.save(training, path)
    masks = pruned(pack(path), out, state="model")
    loaded = torch.load(out, weights_only=False)
    check_state(loaded["model"].state_dict(), training["model"].state_dict(), masks)
    check_state(loaded["ema"].state_dict(), training["ema"].state_dict(), {})
    assert loaded["model"].head.weight is loaded["model"].last.weight
    assert loaded["settings"] == loaded["model"].settings == Settings()
    assert len(changed(path, out)) == len({name for name in masks if name != "head.weight"})
    assert "data.pkl" not in changed(path, out)
    assert verify(out).problems == []


def test_a_compressed_copy_keeps_all_other_bytes(tmp_path, training):
    path, out = tmp_path / "train.pt", tmp_path / "out.pt"
    torch.save(training, path)
    step = {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.9}
    with applied(path, Recipe(steps=[step]), "model") as resolution:
        export(resolution, out, compressed=True)
        masks = {name: resolution.mask(name) for name in resolution.layers}
    assert out.stat().st_size < 0.8 * path.stat().st_size
    assert "data.pkl" not in changed(path, out)
    loaded = torch.load(out, weights_only=False)["model"].state_dict()
    assert all(not loaded[name][~mask].any() for name, mask in masks.items())


def test_a_copy_is_aligned_and_maps(tmp_path, training):
    path, out = tmp_path / "train.pt", tmp_path / "out.pt"
    torch.save(training, path)
    masks = pruned(path, out, state="model")
    mapped = torch.load(out, weights_only=False, mmap=True)
    check_state(mapped["model"].state_dict(), training["model"].state_dict(), masks)
    with zipfile.ZipFile(out) as archive, out.open("rb") as file:
        for record in archive.infolist():
            file.seek(record.header_offset + 26)
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
            assert (record.header_offset + 30 + name + extra) % ALIGNMENT == 0


@pytest.mark.parametrize("pack", [lambda path: path, deflated], ids=["stored", "deflated"])
def test_a_copy_of_large_records_loads(tmp_path, training, monkeypatch, pack):
    path, out = tmp_path / "train.pt", tmp_path / "out.pt"
    torch.save(training, path)
    pack(path)
    monkeypatch.setattr(torch_archive, "MAX_PLAIN_BYTES", 64)
    step = {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5}
    with open_checkpoint(path, "model") as checkpoint:
        export(resolve(Recipe(steps=[step]), checkpoint), out)
    assert "data.pkl" not in changed(path, out)
    torch.load(out, weights_only=False)


def test_in_a_legacy_file_only_the_pruned_values_differ(tmp_path, training):
    path, out = tmp_path / "train.pt", tmp_path / "out.pt"
    torch.save(training, path, **LEGACY)
    masks = pruned(path, out, state="model")
    loaded = torch.load(out, weights_only=False)
    check_state(loaded["model"].state_dict(), training["model"].state_dict(), masks)
    old, new = path.read_bytes(), out.read_bytes()
    assert len(old) == len(new)
    differing = sum(one != other for one, other in zip(old, new, strict=True))
    zeroed = sum(int((~masks[name]).sum()) for name in masks if name != "head.weight")
    assert 2 * zeroed < differing <= 4 * zeroed  # some bytes of a number are zero before


def test_of_a_view_in_a_shared_storage_only_its_bytes_change(tmp_path):
    path, out = tmp_path / "views.pt", tmp_path / "out.pt"
    whole = torch.arange(1.0, 1001.0)
    turned = whole[600:900].view(20, 15).T
    every_second = whole[901:1000:2]
    torch.save(
        {
            "weights": {"weight": whole[100:500], "turned.weight": turned, "second": every_second},
            "rest": whole[:100],
            "settings": Settings(),
        },
        path,
    )
    masks = pruned(path, out, targets="*", state="weights")
    loaded = torch.load(out, weights_only=False)
    old = {"weight": whole[100:500], "turned.weight": turned, "second": every_second}
    check_state(loaded["weights"], old, masks)
    assert loaded["weights"]["turned.weight"].stride() == turned.stride()
    new = loaded["rest"].as_strided((1000,), (1,), 0)
    untouched = torch.ones(1000, dtype=torch.bool)
    untouched[100:500] = untouched[600:900] = untouched[901:1000:2] = False
    assert torch.equal(new[untouched], whole[untouched])
    assert changed(path, out) == {"data/0"}


def test_another_object_with_the_same_storage_keeps_its_values_in_a_plain_file(tmp_path):
    path, out = tmp_path / "plain.pt", tmp_path / "out.pt"
    weight = torch.arange(1.0, 11.0)
    torch.save({"model": {"weight": weight}, "best": [weight]}, path)
    masks = pruned(path, out)
    loaded = torch.load(out)
    check_state(loaded["model"], {"weight": weight}, masks)
    assert torch.equal(loaded["best"][0], weight)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_reparametrized_form_is_a_plain_state_dict(tmp_path, training, suffix):
    path, out = tmp_path / "train.pt", tmp_path / f"out{suffix}"
    torch.save(training, path)
    masks = pruned(path, out, "reparametrized", state="model")
    with open_checkpoint(out) as checkpoint:
        assert not checkpoint.foreign
        assert not checkpoint.root
        old = training["model"].state_dict()
        for name in masks.keys() & checkpoint.tensors.keys():
            assert torch.equal(checkpoint.read_mask(name), masks[name])
            assert torch.equal(checkpoint.read(name), old[name])
    if suffix == ".pt":
        assert "first.weight_orig" in torch.load(out, weights_only=True)


def test_values_inside_the_pickle_are_refused_by_name(tmp_path):
    path, out = tmp_path / "arrays.pt", tmp_path / "out.pt"
    torch.save({"weight": torch.ones(20).numpy(), "bias": torch.ones(3)}, path)
    with pytest.raises(CheckpointError, match="'weight' cannot be replaced"):
        pruned(path, out)
    assert not out.exists()
    pruned(path, tmp_path / "out.safetensors")


def adam(names: bool = False, **options: object) -> dict[str, object]:
    """Return a plain training checkpoint with the moments of Adam."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(30, 20), nn.BatchNorm1d(20), nn.Linear(20, 3))
    parameters = network.named_parameters() if names else network.parameters()
    optimizer = torch.optim.Adam(parameters, **options)
    network(torch.randn(8, 30)).square().sum().backward()
    optimizer.step()
    return {"state_dict": network.state_dict(), "optimizer_states": [optimizer.state_dict()]}


@pytest.mark.parametrize("names", [False, True])
def test_moments_of_pruned_elements_are_zeroed_on_request(tmp_path, names):
    path, out = tmp_path / "adam.ckpt", tmp_path / "out.ckpt"
    content = adam(names, amsgrad=True)
    torch.save(content, path)
    masks = pruned(path, out, targets="?.weight", zero_moments=True)
    loaded = torch.load(out)
    check_state(loaded["state_dict"], content["state_dict"], masks)
    order = ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"]
    [old], [new] = content["optimizer_states"], loaded["optimizer_states"]
    for number, name in enumerate(order):
        for kind in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
            before, after = old["state"][number][kind], new["state"][number][kind]
            assert torch.equal(after, before * masks.get(name, 1)), (name, kind)
    assert "data.pkl" not in changed(path, out)
    assert verify(out).problems == []


def shuffled() -> dict[str, object]:
    content = adam()
    content["optimizer_states"][0]["state"][0], content["optimizer_states"][0]["state"][4] = (
        content["optimizer_states"][0]["state"][4],
        content["optimizer_states"][0]["state"][0],
    )
    return content


def in_groups() -> dict[str, object]:
    content = adam()
    [group] = content["optimizer_states"][0]["param_groups"]
    content["optimizer_states"][0]["param_groups"] = [
        {**group, "params": [0, 1, 2]},
        {**group, "params": [3, 4, 5]},
    ]
    return content


def partly() -> dict[str, object]:
    content = adam()
    content["optimizer_states"][0]["param_groups"][0]["params"].pop()
    return content


@pytest.mark.parametrize(
    ("make", "reason"),
    [(shuffled, "not those"), (in_groups, "several groups"), (partly, "not those")],
)
def test_moments_of_uncertain_parameters_are_refused(tmp_path, make, reason):
    path, out = tmp_path / "adam.ckpt", tmp_path / "out.ckpt"
    torch.save(make(), path)
    with pytest.raises(CheckpointError, match=reason):
        pruned(path, out, targets="?.weight", zero_moments=True)
    assert not out.exists()


def test_a_file_without_moments_has_none_to_zero(tmp_path):
    path = tmp_path / "plain.pt"
    torch.save({"weight": torch.rand(10)}, path)
    with pytest.raises(CheckpointError, match="no optimizer state"):
        pruned(path, tmp_path / "out.pt", zero_moments=True)


def test_notes_say_what_is_kept(tmp_path, training):
    paths = [tmp_path / "train.pt", tmp_path / "legacy.pt"]
    torch.save(training, paths[0])
    torch.save(training, paths[1], **LEGACY)
    for path, start in zip(paths, ("byte for byte", "no place for the recipe"), strict=True):
        with open_checkpoint(path, "model") as checkpoint:
            step = {"method": "l1_unstructured", "targets": ["*weight"], "amount": 0.5}
            resolution = resolve(Recipe(steps=[step]), checkpoint)
            as_torch = sizes(resolution, tmp_path / "out.pt")
            as_safetensors = sizes(resolution, tmp_path / "out.safetensors")
        assert start in as_torch["finalized"].note
        assert "plain state dict" in as_torch["reparametrized"].note
        assert as_torch["masks"].note == ""
        assert "only the tensors" in as_safetensors["finalized"].note


def test_the_note_names_a_state_dict_with_the_same_values(tmp_path):
    path, network = tmp_path / "train.pt", nn.Linear(5, 5)
    state = network.state_dict()
    torch.save({"model": state, "ema": dict(state), "other": Network(), "s": Settings()}, path)
    step = {"method": "l1_unstructured", "targets": ["weight"], "amount": 0.5}
    with applied(path, Recipe(steps=[step]), "model") as resolution:
        note = sizes(resolution, tmp_path / "out.pt")["finalized"].note
    assert "'ema' has the same values" in note
    assert "'other'" not in note
