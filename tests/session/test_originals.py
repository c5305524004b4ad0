"""The original of a pruned file is found by its fingerprint, and remembered."""

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe
from prune_gui.session import Session
from prune_gui.session.kept_recipes import keep_reference, keep_states, load_kept
from prune_gui.session.originals import find_original


@pytest.fixture
def pruned(tmp_path):
    path = tmp_path / "net-pruned.safetensors"
    save_file({"w": torch.eye(3)}, path)
    with open_checkpoint(path) as checkpoint:
        yield checkpoint


def _written(path, weights):
    path.parent.mkdir(exist_ok=True)
    save_file({"w": weights}, path)
    with open_checkpoint(path) as checkpoint:
        return checkpoint.fingerprint(Monitor())


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_it_is_found_beside_the_file_or_among_recent_ones(pruned, tmp_path, folder):
    wanted = _written(tmp_path / folder / "net.safetensors", torch.ones(3, 3))
    _written(tmp_path / "net-other.safetensors", torch.ones(3, 3) * 2)
    (tmp_path / "net-damaged.safetensors").write_bytes(b"damaged")
    recent = [tmp_path / "gone.pt", tmp_path / folder / "net.safetensors"]
    assert find_original(pruned, wanted, recent, Monitor()) == recent[-1]
    assert find_original(pruned, "sha256:0", recent, Monitor()) is None


def test_a_folder_that_cannot_be_read_has_no_original(pruned, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere" / "net.safetensors"
    wanted = _written(elsewhere, torch.ones(3, 3))

    def refuse(_):
        raise PermissionError("no")

    monkeypatch.setattr(type(tmp_path), "iterdir", refuse)
    assert find_original(pruned, wanted, [], Monitor()) is None
    assert find_original(pruned, wanted, [elsewhere], Monitor()) == elsewhere


def test_the_reference_is_remembered_with_the_named_states(pruned, tmp_path):
    reference, kept = tmp_path / "net.safetensors", tmp_path / "kept"
    _written(reference, torch.ones(3, 3))
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
    assert not session.is_pruned
    session.file_zeros = ZeroScan(pruned).advance(1, Monitor())
    assert session.is_pruned
