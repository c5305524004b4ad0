"""Time to prune and save a large checkpoint, beside a plain copy of its file.

Usage: ``python benchmarks/exporting.py [GIGABYTES] [--folder FOLDER] [--only SUFFIX]``. The default
size is 2. The checkpoint is bfloat16, and half of its weights are pruned. The first checkpoint is a
safetensors file, pruned by several methods; the second is a torch file of the same size, of which
one half is optimizer state. Each side runs twice in a process of its own, until its file is on the
disk. CPU seconds are those of all threads, which do not depend on the number of cores; the figure
per GB is of the input. Memory is anonymous memory, without pages of mapped files.
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
from pathlib import Path

ROWS, COLUMNS = 8192, 4096
STEPS = {
    "L1, global": {"method": "l1_unstructured", "scope": "global", "amount": 0.5},
    "2:4": {"method": "n_m"},
    "rows": {"method": "ln_structured", "amount": 0.5, "dim": 0},
    "balanced": {"method": "balanced", "amount": 0.5},
    "random": {"method": "random_unstructured", "amount": 0.5},
}
METHODS = {".safetensors": tuple(STEPS), ".pt": ("L1, global",)}
COPY = "copy"


def make_checkpoint(path: Path, gigabytes: float) -> None:
    """Write normally distributed bfloat16 weights."""
    import torch

    from prune_gui.checkpoint import FileOutput, TensorWriter
    from prune_gui.monitor import Monitor

    count = max(2, round(gigabytes * 1e9 / (2 * ROWS * COLUMNS)))
    noise = torch.randn(ROWS * COLUMNS, generator=torch.Generator().manual_seed(0)).bfloat16()
    if path.suffix == ".pt":
        weights = [noise.roll(i).view(ROWS, COLUMNS) for i in range(count // 2)]
        names = [f"model.layers.{i}.mlp.weight" for i in range(len(weights))]
        moments = {i: {"step": 1, "exp_avg": weight * 0.1} for i, weight in enumerate(weights)}
        states = dict(zip(names, weights, strict=True)), {"state": moments, "param_groups": [{}]}
        torch.save(dict(zip(("state_dict", "optimizer"), states, strict=True)), path)
        return
    writers = [
        TensorWriter(
            f"model.layers.{i}.mlp.weight",
            "bfloat16",
            (ROWS, COLUMNS),
            lambda i=i: iter([noise.roll(i)]),
        )
        for i in range(count)
    ]
    FileOutput(path=path, tensors=writers, template=None).write({}, Monitor())


def copy(source: Path, target: Path) -> None:
    """Copy a file through memory, as a program that reads its bytes."""
    with source.open("rb") as old, target.open("wb") as new:
        shutil.copyfileobj(old, new, 4 << 20)
        new.flush()
        os.fsync(new.fileno())


def prune(name: str, source: Path, target: Path) -> None:
    """Prune half of all weights by the method of this name and save the checkpoint."""
    import prune_gui

    recipe = prune_gui.Recipe.model_validate({"steps": [{**STEPS[name], "targets": ["*"]}]})
    with prune_gui.open_checkpoint(source) as checkpoint:
        prune_gui.export(prune_gui.resolve(recipe, checkpoint), target)


def _anonymous_memory() -> int:
    """Return the resident bytes of this process that no file backs; 0 if unknown."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def _warm_up() -> None:
    """Prune a small checkpoint by all methods, so that libraries and compiled loops are loaded."""
    import torch
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.safetensors"
        save_file({"w": torch.ones(1024, 1024).bfloat16()}, small)
        for name in STEPS:
            prune(name, small, Path(folder) / f"{name}.safetensors")


def _measure(name: str, source: Path, target: Path) -> None:
    _warm_up()
    before = peak = _anonymous_memory()
    is_done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_done.wait(0.02):
            peak = max(peak, _anonymous_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, cpu = time.perf_counter(), time.process_time()
    copy(source, target) if name == COPY else prune(name, source, target)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    is_done.set()
    watcher.join()
    row = (
        f"{source.suffix:<13} {name:<10} {seconds:6.1f} s  {cpu:6.1f} CPU s  "
        f"{cpu / source.stat().st_size * 1e9:5.2f} CPU s per GB  {(peak - before) / 1e6:6.0f} MB"
    )
    print(row, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gigabytes", nargs="?", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=None, help="folder for the files")
    parser.add_argument("--only", choices=METHODS, help="measure one file format only")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, source, target = options.one
        _measure(name, Path(source), Path(target))
        return
    for suffix in [options.only] if options.only else METHODS:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            source, target = Path(folder) / f"model{suffix}", Path(folder) / f"out{suffix}"
            make_checkpoint(source, options.gigabytes)
            for name in (COPY, *METHODS[suffix]) * 2:
                command = [sys.executable, __file__, "--one", name, str(source), str(target)]
                subprocess.run(command, check=True)
                target.unlink()


if __name__ == "__main__":
    main()
