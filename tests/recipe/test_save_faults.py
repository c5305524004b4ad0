"""Each system call of a save fails, or is the last one before the process dies."""

import errno
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from system_faults import ERRNOS, KILL, SHORT, Fault, Killed, raising, system_calls
from written_files import contents

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.checkpoint.safetensors.format import SafetensorsCheckpoint
from prune_gui.checkpoint.write import temp_files
from prune_gui.checkpoint.write.temp_files import remove_abandoned
from prune_gui.errors import CheckpointError, PruneGuiError
from prune_gui.memory import OutOfMemoryError, is_out_of_memory
from prune_gui.parallel import use_threads
from prune_gui.recipe import Recipe, Resolution, export, resolve

STEP = {"method": "listed_units", "space": "channels", "units": [1, 2], "targets": ["0.*"]}
SAVES = {
    "safetensors": ("out.safetensors", "finalized", None),
    "torch": ("out.pt", "finalized", None),
    "reparametrized": ("out.safetensors", "reparametrized", None),
    "shards": ("out", "finalized", 40),
    "compact": ("out", "compact", None),
    "compact shards": ("out", "compact", 40),
}
"""The output path, the form, and the maximum shard size in bytes."""

LOADER = "load_out_safetensors.py"
State = dict[str, bytes]

pytestmark = [  # a file stays open if its close fails, or after a kill
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="files are locked and renamed")


@pytest.fixture(scope="module")
def resolution(tmp_path_factory) -> Resolution:
    path = tmp_path_factory.mktemp("source") / "model.safetensors"
    weights = {"0.weight": torch.rand(6, 4), "0.bias": torch.rand(6), "2.weight": torch.rand(3, 6)}
    save_file(weights, path)
    path.with_name("config.json").write_text("{}")  # is copied into folders
    with open_checkpoint(path) as checkpoint:
        yield resolve(Recipe(steps=[STEP]), checkpoint)


@pytest.fixture(autouse=True)
def unclosed_files():
    """Collect the files that stay open, so that no later test is blamed for them."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def counted_renames(monkeypatch):
    """Count calls of the C library by `temp_files` as system calls, too."""
    rename = temp_files._renameat2

    def counted(source, target, flags):
        os.lstat(source)
        rename(source, target, flags)

    monkeypatch.setattr(temp_files, "_renameat2", counted)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a slow disk is not what is tested
    use_threads(1)  # only the calls of one thread count
    yield
    use_threads(None)


def save(resolution: Resolution, folder: Path, kind: str) -> None:
    name, form, shard_size = SAVES[kind]
    export(resolution, folder / name, form, overwrite=True, shard_size=shard_size)


def old_state(resolution: Resolution, folder: Path, kind: str, *, exists: bool) -> State:
    """Create existing files at the output path, and return them."""
    if not exists:
        return {}
    save(resolution, folder, kind)
    for path in [path for path in folder.rglob("*") if path.suffix != ".json"]:
        if path.is_file():
            path.write_bytes(b"old")
    return contents(folder)


def restore(folder: Path, content: State) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, octets in content.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(octets)


class Outcome(NamedTuple):
    fault: str
    raised: PruneGuiError | Killed | None
    old: State
    new: State
    now: State


def outcomes(
    resolution: Resolution,
    folder: Path,
    kind: str,
    fault_of: Callable[[int], int],
    *,
    exists: bool,
) -> Iterator[Outcome]:
    """Save with an injected fault in each system call, which may depend on its number."""
    old = old_state(resolution, folder, kind, exists=exists)
    with system_calls() as calls:
        save(resolution, folder, kind)
    new = contents(folder)
    assert new != old
    assert {"open", "write", "fsync", "flock", "stat", "close"} <= set(calls)
    for number, name in enumerate(list(calls)):
        fault = fault_of(number)
        if fault == SHORT and name not in ("pwrite", "read", "write"):
            continue
        restore(folder, old)
        raised = None
        try:
            with system_calls(Fault(number, fault)):
                save(resolution, folder, kind)
        except (PruneGuiError, Killed) as error:
            raised = error
        yield Outcome(f"{name} ({number}, {fault})", raised, old, new, contents(folder))


def assert_old_or_new(found: Outcome, folder: Path) -> None:
    """Check that no temporary files remain; after a kill, once they were swept."""
    fault, raised, old, new, now = found
    if isinstance(raised, Killed):
        remove_abandoned(folder)  # as the next save does
        # After a kill between the two renames, the loader is new and the checkpoint is old.
        between = {**old, LOADER: new[LOADER]} if LOADER in new else old
        assert contents(folder) in (old, new, between), fault
    elif raised is None:
        assert now == new, fault
    else:
        assert now == old, (fault, raised)
        assert "\n" not in str(raised), fault
        assert "out" in str(raised) or "model.safetensors" in str(raised), (fault, raised)
    assert not list(folder.glob(".*")), fault


@posix_only
@pytest.mark.parametrize(
    "fault_of",
    [lambda number: ERRNOS[number % len(ERRNOS)], lambda _: KILL],
    ids=["an error in one line", "a kill"],
)
def test_a_fault_at_any_system_call_leaves_the_old_files_or_the_new_ones(
    resolution, tmp_path, fault_of
):
    for found in outcomes(resolution, tmp_path, "reparametrized", fault_of, exists=True):
        assert_old_or_new(found, tmp_path)


@posix_only
@pytest.mark.slow
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("kind", SAVES)
@pytest.mark.parametrize("fault", [*ERRNOS, errno.ENOMEM, SHORT, KILL])
def test_any_fault_of_any_call_of_any_save_leaves_the_old_files_or_the_new_ones(
    resolution, tmp_path, kind, exists, fault
):
    for found in outcomes(resolution, tmp_path, kind, lambda _: fault, exists=exists):
        assert_old_or_new(found, tmp_path)


@posix_only
@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_a_disk_that_cannot_read_back_the_file_gives_one_line(
    resolution, tmp_path, monkeypatch, suffix
):
    target = tmp_path / f"out.{suffix}"
    target.write_bytes(b"old")
    for kind in (Checkpoint, SafetensorsCheckpoint):
        monkeypatch.setattr(
            kind, "stored_reader", raising(OSError(errno.EIO, "Input/output error"))
        )
    with pytest.raises(CheckpointError) as raised:
        export(resolution, target, overwrite=True)
    assert str(raised.value) == (
        f"{target} was not written: the new file cannot be read back: Input/output error. "
        "The disk or the memory may be faulty."
    )
    assert contents(tmp_path) == {f"out.{suffix}": b"old"}


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
    recipe = Recipe.from_yaml(RECIPE)

    def save(out: Path = out) -> None:
        with open_checkpoint(path) as checkpoint:
            export(resolve(recipe, checkpoint), out, form="reparametrized", overwrite=True)

    other = tmp_path / f"other-{name}"
    save(other)  # compiles the loops, which numba cannot do with these functions patched
    known = {name, out.name, *(each.name for each in tmp_path.iterdir())}
    allocations = Allocations(monkeypatch)
    out.write_bytes(b"old")
    refusals = 0
    while out.read_bytes() == b"old":
        refusals += 1
        allocations.count, allocations.refused = 0, refusals
        try:
            save()
        except (PruneGuiError, MemoryError):
            assert out.read_bytes() == b"old"
            assert {each.name for each in tmp_path.iterdir()} == known
    assert refusals > 1
    gc.collect()


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce] DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"), True),
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
    assert "fewer parameters" in str(OutOfMemoryError(raised.value))


def test_a_card_without_enough_memory_names_the_way_out():
    shown = str(OutOfMemoryError(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")))
    assert "--device cpu" in shown
