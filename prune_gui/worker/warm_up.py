"""Import of libraries and compilation of loops while the window stays responsive.

Compilation holds the GIL and the lock of numba for seconds, so that a process of its own runs
`main` here, and shares the cache of compiled code with the program.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from prune_gui.pruning.kernels.loop import interpret_up_to

LARGE_LIBRARIES: Final = {"torch": "lib/libtorch_cpu.*", "llvmlite": "binding/libllvmlite.*"}
"""The largest shared library of each package, as a pattern of paths in it."""
USED_BY_THE_FIRST_PICTURE: Final = (
    "prune_gui.raster.density",
    "prune_gui.statistics.element_values",
    "prune_gui.statistics.score_histogram",
    "prune_gui.recipe.resolution",
    "prune_gui.pruning.plugins.loading",
)
"""Modules that jobs import to open a checkpoint, to resolve a recipe, and to draw a mask."""
USED_LATER: Final = (
    "prune_gui.pruning.kernels.compilation",
    "psutil",
    "prune_gui.comparison.mask_overlap",
    "prune_gui.comparison.state_losses",
    "prune_gui.statistics.histogram",
    "prune_gui.statistics.layer_statistics",
    "prune_gui.statistics.channel_statistics",
    "prune_gui.raster.cell_statistics",
    "prune_gui.statistics.zero_scan",
    "prune_gui.checkpoint.write.writing",
    "prune_gui.evaluation.evaluator",
    "prune_gui.evaluation.trials",
    "prune_gui.pruning.plugins.method",
    "prune_gui.recipe.exporting",
    "prune_gui.recipe.sizes",
)
"""Modules that jobs or the window import on first use, where the import would cause a delay."""
NICENESS: Final = 5
"""Of the process that compiles loops."""
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


def import_for_first_picture() -> None:
    """Import torch, and the modules that the first picture of a checkpoint needs."""
    _link()
    for name in USED_BY_THE_FIRST_PICTURE:
        import_module(name)


def import_rest() -> None:
    """Import the modules that are otherwise imported when they are used first."""
    for name in USED_LATER:
        import_module(name)


def loops() -> Iterator[Callable[[], object]]:
    """Yield functions that call the loops of the engine on small arrays, the most used first."""
    import numpy as np  # slow to import
    import torch  # slow to import

    from prune_gui.pruning.kernels.key_loops import group_digits
    from prune_gui.pruning.norms.unit_norms import channel_norms
    from prune_gui.pruning.selection.radix_select import MAX_SMALL_ELEMENTS, smallest
    from prune_gui.raster import cell_kernels
    from prune_gui.statistics import kernels

    yield partial(smallest, torch.ones(MAX_SMALL_ELEMENTS + 1), 1)
    yield cell_kernels.warm_up
    yield kernels.warm_up
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        yield partial(smallest, torch.ones(MAX_SMALL_ELEMENTS + 1, dtype=dtype), 1)
    one, starts = np.zeros(1, np.uint32), np.zeros(1 << 16, np.uint32)
    for mask in (None, np.ones(1, np.bool_)):
        yield partial(group_digits, one, mask, starts.copy(), np.zeros(1, np.uint16))
    for dtype in (torch.float32, torch.bfloat16):
        yield partial(channel_norms, torch.ones(2, dtype=dtype), 2, 0)


def _link() -> None:
    """Link the large libraries of torch and numba, before they are imported.

    An import holds the GIL while the system links a library, for these two 0.3 s together, and so
    blocks the window. A call through ctypes releases the GIL, but other libraries wait for the
    system's linker: the window is painted, with the plug-ins of Qt, before this is called.
    """
    if sys.platform == "win32":
        return
    libc = ctypes.CDLL(None)
    libc.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
    libc.dlopen.restype = ctypes.c_void_p
    for package, pattern in LARGE_LIBRARIES.items():
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for library in Path(folder).glob(pattern):
                libc.dlopen(os.fsencode(library), os.RTLD_NOW | os.RTLD_GLOBAL)


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
