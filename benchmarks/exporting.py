"""How long it takes to prune and save a large checkpoint, beside copying its file.

Run it as ``python benchmarks/exporting.py [GIGABYTES] [--folder FOLDER] [--only SUFFIX]``; 2 unless
told. The checkpoint is bfloat16, the step L1 global 0.5. It is a safetensors file, and then a torch
file of the same size, of which one half is what an optimizer keeps of the other. Each side runs in
a process of its own and ends when its file is on the disk; the memory is what a process holds
beyond the pages of mapped files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROWS, COLUMNS = 8192, 4096
SUFFIXES = (".safetensors", ".pt")


def make_checkpoint(path: Path, gigabytes: float) -> None:
    """Write bfloat16 weights that are as random as real ones."""
    import torch

    from prune_gui.checkpoint import TensorWriter, write_checkpoint
    from prune_gui.monitor import Monitor

    count = max(2, round(gigabytes * 1e9 / (2 * ROWS * COLUMNS)))
    noise = torch.randn(ROWS * COLUMNS, generator=torch.Generator().manual_seed(0)).bfloat16()
    if path.suffix == ".pt":
        weights = [noise.roll(i).view(ROWS, COLUMNS) for i in range(count // 2)]
        names = [f"model.layers.{i}.mlp.weight" for i in range(len(weights))]
        kept = {i: {"step": 1, "exp_avg": weight * 0.1} for i, weight in enumerate(weights)}
        states = dict(zip(names, weights, strict=True)), {"state": kept, "param_groups": [{}]}
        torch.save(dict(zip(("state_dict", "optimizer"), states, strict=True)), path)
        return
    entries = [
        TensorWriter(
            f"model.layers.{i}.mlp.weight",
            "bfloat16",
            (ROWS, COLUMNS),
            lambda i=i: iter([noise.roll(i)]),
        )
        for i in range(count)
    ]
    write_checkpoint(path, entries, like=None, metadata={}, monitor=Monitor())


def copy(source: Path, target: Path) -> None:
    """Copy a file as a program would that has to look at its bytes."""
    with source.open("rb") as old, target.open("wb") as new:
        shutil.copyfileobj(old, new, 4 << 20)
        new.flush()
        os.fsync(new.fileno())


def prune(source: Path, target: Path) -> None:
    """Prune half of all weights and save the checkpoint."""
    import prune_gui

    step = {"method": "l1_unstructured", "targets": ["*"], "scope": "global", "amount": 0.5}
    recipe = prune_gui.Recipe.model_validate({"steps": [step]})
    began = time.perf_counter()
    with prune_gui.open_checkpoint(source) as checkpoint:
        resolution = prune_gui.resolve(recipe, checkpoint)
        print(f"        resolved in {time.perf_counter() - began:.1f} s")
        prune_gui.export(resolution, target)


def _anonymous() -> int:
    """Return the private bytes of this process, mapped files left out."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def _measured(work: Callable[[Path, Path], None], source: Path, target: Path) -> None:
    import prune_gui.pruning  # noqa: F401 - what every process needs is loaded before it is timed

    before = peak = _anonymous()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, _anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    work(source, target)
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    row = (
        f"{source.suffix:<13} {work.__name__:<6} {seconds:6.1f} s  {(peak - before) / 1e6:6.0f} MB"
    )
    print(row, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gigabytes", nargs="?", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=None, help="where the files are made")
    parser.add_argument("--only", choices=SUFFIXES, help="of the two kinds of file")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, source, target = given.one
        _measured({"copy": copy, "prune": prune}[name], Path(source), Path(target))
        return
    for suffix in [given.only] if given.only else SUFFIXES:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            source, target = Path(folder) / f"model{suffix}", Path(folder) / f"out{suffix}"
            make_checkpoint(source, given.gigabytes)
            for name in ("copy", "prune", "copy", "prune"):
                command = [sys.executable, __file__, "--one", name, str(source), str(target)]
                subprocess.run(command, check=True)
                target.unlink()


if __name__ == "__main__":
    main()
