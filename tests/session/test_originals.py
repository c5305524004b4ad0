"""The original of a pruned file is found by its fingerprint, and remembered."""

import shutil
from types import SimpleNamespace

import psutil
import pytest
import torch
from safetensors.torch import save_file
from system_faults import raising

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.spans import MappedCheckpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve
from prune_gui.session import Session
from prune_gui.session.kept_recipes import keep_reference, keep_states, load_kept
from prune_gui.session.originals import find_original, is_slow

WEIGHTS = torch.arange(9.0).reshape(3, 3)


def written(path, weights=WEIGHTS, **metadata):
    path.parent.mkdir(exist_ok=True)
    save_file({"w": weights}, path, metadata)
    return path


@pytest.fixture(autouse=True)
def nothing_noted(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def pruned(tmp_path):
    """The checkpoint that was pruned from one with `WEIGHTS`, which is not there any more."""
    recipe = Recipe(steps=[{"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}])
    with open_checkpoint(written(tmp_path / "gone" / "net.safetensors")) as original:
        export(resolve(recipe, original), tmp_path / "net-pruned.safetensors")
    (tmp_path / "gone" / "net.safetensors").unlink()
    with open_checkpoint(tmp_path / "net-pruned.safetensors") as checkpoint:
        yield checkpoint


@pytest.fixture
def hashed(calls_of):
    """The checkpoints that are read as a whole, each with a monitor."""
    return calls_of(MappedCheckpoint, "fingerprint")


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_it_is_found_beside_the_file_or_among_recent_ones(pruned, tmp_path, folder, hashed):
    written(tmp_path / "net-other.safetensors", 2 * WEIGHTS)
    (tmp_path / "net-damaged.safetensors").write_bytes(b"damaged")
    recent = [tmp_path / "lost.pt", tmp_path / folder / "net.safetensors"]
    assert find_original(pruned, recent, Monitor()) is None
    original = written(recent[-1])
    assert find_original(pruned, recent, Monitor()) == original
    del hashed[:]
    assert find_original(pruned, [], Monitor()) == original  # whose fingerprint is noted
    assert not hashed
    written(original, 3 * WEIGHTS)
    assert find_original(pruned, recent, Monitor()) is None
    assert original.name in [checkpoint.path.name for checkpoint, _ in hashed]


def test_files_whose_headers_do_not_fit_are_not_read(pruned, tmp_path, hashed):
    written(tmp_path / "net-1.safetensors", torch.ones(3, 4))
    shutil.copy(pruned.path, tmp_path / "net-2.safetensors")
    save_file({"v": torch.ones(3, 3)}, tmp_path / "net-3.safetensors")
    assert find_original(pruned, [], Monitor()) is None
    assert not hashed


def test_files_in_a_network_are_not_read(pruned, tmp_path, hashed, monkeypatch):
    written(tmp_path / "net.safetensors")
    mounts = [
        SimpleNamespace(mountpoint="/", fstype="nfs4", opts="rw"),
        SimpleNamespace(mountpoint=str(tmp_path), fstype="ext4", opts="rw,remote"),
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: mounts)
    assert is_slow(tmp_path.parent / "a")
    assert find_original(pruned, [], Monitor()) is None
    assert not hashed
    mounts.pop()
    mounts.append(SimpleNamespace(mountpoint=str(tmp_path), fstype="ext4", opts="rw"))
    assert find_original(pruned, [], Monitor()) is not None


def test_a_folder_that_cannot_be_read_has_no_original(pruned, tmp_path, monkeypatch):
    elsewhere = written(tmp_path / "elsewhere" / "net.safetensors")
    monkeypatch.setattr(type(tmp_path), "iterdir", raising(PermissionError("no")))
    assert find_original(pruned, [], Monitor()) is None
    assert find_original(pruned, [elsewhere], Monitor()) == elsewhere


def test_the_reference_is_remembered_with_the_named_states(pruned, tmp_path):
    reference, kept = tmp_path / "net.safetensors", tmp_path / "kept"
    written(reference)
    session = Session(pruned, reference_path=reference)
    keep_reference(session, kept)
    session.named_states["gentle"] = Recipe()
    keep_states(session, kept)
    assert load_kept(pruned, kept) == ({"gentle": Recipe()}, reference)
    reference.unlink()
    assert load_kept(pruned, kept)[1] is None


def test_a_file_with_many_zeros_is_pruned_and_needs_its_original(pruned):
    from prune_gui.statistics.zero_scan import ZeroScan

    session = Session(pruned)
    session.made = None
    assert not session.is_pruned
    session.file_zeros = ZeroScan(pruned).advance(1, Monitor())
    assert session.is_pruned
