"""Compiling all loops in a process of its own, which shares the cache of compiled code with others.

Compilation holds the GIL and the lock of numba for seconds, so that a window would wait for it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from prune_gui.pruning.kernels.loop import interpret_up_to
from prune_gui.pruning.plugins.launcher import search_path
from prune_gui.worker.warm_up import loops

NICENESS: Final = 5
START_CODE: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from prune_gui.worker.compilation_process import main; main()"
)
STEPS: Final = (
    {"method": "l1_unstructured", "scope": "global", "amount": 0.5},
    {"method": "l1_unstructured", "scope": "row", "amount": 0.5},
    {"method": "lamp", "amount": 0.5},
    {"method": "balanced", "amount": 0.5},
    {"method": "balanced", "amount": 0.5, "over": "local"},
    {"method": "l1_unstructured", "amount": 0.5, "score": "ria"},
    {"method": "n_m", "n": 2, "m": 4},
    {"method": "ln_structured", "amount": 0.5, "n": 2},
    {"method": "block", "height": 4, "width": 4, "amount": 0.5},
    {"method": "threshold", "value": 0.5},
    {"method": "random_unstructured", "amount": 0.5},
)
"""Steps that use the loops of the methods."""


def command() -> list[str]:
    """Return the command line of the process: isolated from the working folder."""
    return [sys.executable, "-I", "-u", "-X", "utf8", "-c", START_CODE, json.dumps(search_path())]


def main() -> None:
    """Compile all loops, or load them from the cache; print "DONE TOTAL" after each part."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    interpret_up_to(0)
    with TemporaryDirectory() as folder:
        parts = [*loops(), *_methods(Path(folder))]
        for done, compile_part in enumerate(parts):
            sys.stdout.write(f"{done} {len(parts)}\n")
            compile_part()
        sys.stdout.write(f"{len(parts)} {len(parts)}\n")


def _methods(folder: Path) -> Iterator[Callable[[], None]]:
    """Yield a function for each step in `STEPS` that uses it on the common types of weights."""
    import torch  # slow to import
    from safetensors.torch import save_file  # torch: slow to import

    path = folder / "weights.safetensors"
    shapes = {"small": (8, 8), "large": (256, 128)}  # large: not in one batch with others
    types = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    save_file(
        {
            f"{size}.{name}": torch.ones(shape, dtype=dtype)
            for size, shape in shapes.items()
            for name, dtype in types.items()
        },
        path,
    )
    for step in STEPS:
        yield partial(_use, step, path)


def _use(step: dict[str, object], path: Path) -> None:
    from prune_gui.checkpoint import open_checkpoint  # torch: slow to import
    from prune_gui.recipe import Recipe, resolve  # torch: slow to import

    with open_checkpoint(path) as checkpoint:
        for targets in (["*.float32"], ["*.bfloat16"]):
            recipe = Recipe.model_validate({"steps": [{**step, "targets": targets}] * 2})
            resolution = resolve(recipe, checkpoint)
            for name in checkpoint.tensors:
                resolution.pruned_by(name)
