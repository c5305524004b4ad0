"""Out of memory at any large allocation leaves the old file unchanged, and nothing else."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import PruneGuiError
from prune_gui.memory import OutOfMemoryError, is_out_of_memory
from prune_gui.recipe import Recipe, export, resolve

LARGE_BYTES = 1 << 16
ALLOCATORS = ((np, "empty"), (np, "zeros"), (torch, "empty"), (torch, "frombuffer"))
RECIPE = """
steps:
  - {method: l1_unstructured, targets: ["*"], scope: global, amount: 0.5}
  - {method: random_unstructured, targets: ["*"], amount: 0.2}
"""


class Allocations:
    """Counts large allocations, and lets the one with a given number fail."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.refused = 0
        for module, name in ALLOCATORS:
            patch.setattr(module, name, self._counted(getattr(module, name)))

    def _counted(self, allocate: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **options: object) -> object:
            made = allocate(*arguments, **options)
            if made.nbytes >= LARGE_BYTES:
                self.count += 1
                if self.count == self.refused:
                    raise MemoryError
            return made

        return counted


@pytest.mark.parametrize("name", ["m.safetensors", "m.pt"])
def test_out_of_memory_during_a_save_leaves_the_old_file(tmp_path, monkeypatch, name):
    path, out = tmp_path / name, tmp_path / f"out-{name}"
    tensors = {"a": torch.randn(300, 300), "b": torch.randn(90_000)}
    save_file(tensors, path) if name.endswith("safetensors") else torch.save(tensors, path)
    out.write_bytes(b"old")
    allocations = Allocations(monkeypatch)
    recipe = Recipe.from_yaml(RECIPE)

    def save() -> None:
        with open_checkpoint(path) as checkpoint:
            export(resolve(recipe, checkpoint), out, form="reparametrized", overwrite=True)

    refusals = 0
    while out.read_bytes() == b"old":
        refusals += 1
        allocations.count, allocations.refused = 0, refusals
        try:
            save()
        except (PruneGuiError, MemoryError):
            assert out.read_bytes() == b"old"
            assert {each.name for each in tmp_path.iterdir()} == {name, out.name}
    assert refusals > 1
    gc.collect()


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_out_of_memory_errors_are_recognised(error, known):
    assert is_out_of_memory(error) is known


def test_the_out_of_memory_message_of_torch_is_known():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(raised.value)
    assert "Close other programs" in str(OutOfMemoryError())
