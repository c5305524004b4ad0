"""Compact folders after a kill at any step of the save: the old files or the new ones."""

import gc
import os
import sys

import pytest
from applied import exported
from system_faults import KILL, Fault, Killed, system_calls
from transformer_families import save_model

from prune_gui import Recipe
from prune_gui.checkpoint.write import temp_files
from prune_gui.checkpoint.write.temp_files import remove_abandoned

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="files are locked and renamed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # files stay open after a kill
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
STEPS = [
    {"method": "listed_units", "space": "ffn", "units": [0, 3], "targets": ["*"]},
    {"method": "listed_units", "space": "ffn", "units": [5], "targets": ["*layers.1.*"]},
    {"method": "coupled", "space": "kv_groups", "targets": ["*"]},
]
"""They need a loader script."""


@pytest.fixture(params=["1GB", "12KB"], ids=["file", "shards"])
def source(request, tmp_path):
    save_model("llama", tmp_path / "in", shard_size=request.param)
    return tmp_path / "in"


def save(source, out):
    exported(source, out, Recipe(steps=STEPS), "compact", overwrite=True)


def state(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def restore(folder, content):
    for path in list(folder.iterdir()):
        path.unlink()
    for name, octets in content.items():
        (folder / name).write_bytes(octets)


def test_after_a_kill_at_any_system_call_the_folder_is_old_or_new(source, tmp_path, monkeypatch):
    exchange = temp_files._renameat2

    def counted(first, second, flags):
        os.lstat(first)
        exchange(first, second, flags)

    monkeypatch.setattr(temp_files, "_renameat2", counted)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a slow disk is not what is tested
    out, unchanged = tmp_path / "out", state(source)
    save(source, out)
    new = state(out)
    old = {name: new[name] if name.endswith(".index.json") else b"old" for name in new}
    with system_calls() as calls:
        save(source, out)
    seen = set()
    for number in range(0, len(calls), max(1, len(calls) // 80)):
        restore(out, old)
        with pytest.raises(Killed), system_calls(Fault(number, KILL)):
            save(source, out)
        gc.collect()
        remove_abandoned(tmp_path)
        now = state(out)
        assert now in (old, new), (number, calls[number])
        assert {path.name for path in tmp_path.iterdir()} == {"in", "out"}
        seen.add(now == new)
    assert False in seen
    assert state(source) == unchanged
