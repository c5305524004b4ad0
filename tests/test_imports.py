"""The program starts soon, because it imports slow libraries only where it needs them."""

import pytest
import torch
from python_process import run_python
from safetensors.torch import save_file
from sharded_files import write_shards

OPENING = """
from prune_gui.checkpoint import FileOutput, TensorWriter, module_tree, open_checkpoint
assert module_tree(open_checkpoint("m.safetensors").tensors.values()).children
"""
SHARDS = "import prune_gui; assert len(prune_gui.open_checkpoint('shards').tensors) == 1"
INSTALLED = "from prune_gui.pruning.plugins import use_installed; assert use_installed() == ()"


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import prune_gui.pruning.methods", {"torch", "numpy", "numba", "PySide6"}),
        ("import prune_gui.cli; prune_gui.Recipe", {"torch", "numba", "PySide6"}),
        ("import prune_gui.checkpoint", {"prune_gui.checkpoint.base", "torch", "numpy"}),
        (OPENING, {"torch", "numpy"}),
        (SHARDS, {"torch"}),
        (INSTALLED, {"torch"}),
    ],
)
def test_slow_libraries_are_not_imported_for(program, absent, tmp_path):
    save_file({"a": torch.ones(3)}, tmp_path / "m.safetensors")
    write_shards(tmp_path / "shards", {"m-1.safetensors": {"a": torch.ones(3)}})
    imported = run_python(f"{program}\nimport sys\nprint(*sys.modules)", cwd=tmp_path)
    assert not absent & set(imported.split())
