"""Time to open a checkpoint of 100,000 tensors, to show its tree, and to filter it.

Usage: ``python benchmarks/opening.py [TENSORS]``. The column beside it is the time of safetensors'
own `safe_open` for the names, and for the shapes and dtypes that the tree shows.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from measuring import HEADINGS, Contender, Figure, fastest, seconds, table_row
from PySide6.QtWidgets import QApplication
from safetensors import safe_open

from prune_gui.checkpoint import open_checkpoint
from prune_gui.gui.modules.tree_model import TreeModel
from prune_gui.session import ModuleIndex

ROUNDS = 7
ROWS = 40
"""Number of rows that fit into the window."""


def experts(number: int) -> Iterable[str]:
    """Return parameter names of a mixture of experts."""
    for i in range(number):
        layer, expert = divmod(i // 3, 256)
        yield f"model.layers.{layer}.mlp.experts.{expert}.w{i % 3 + 1}.weight"


def flat(number: int) -> Iterable[str]:
    """Return names without a dot."""
    return (f"tensor_{i}" for i in range(number))


def write(path: Path, names: Iterable[str]) -> None:
    """Write a header for many bfloat16 tensors; their values are a hole in a sparse file."""
    size = 8 * 8 * 2
    header = {
        name: {"dtype": "BF16", "shape": [8, 8], "data_offsets": [i * size, (i + 1) * size]}
        for i, name in enumerate(names)
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + len(header) * size)


def figure(work: str, here: Contender, other: Contender | None, limit_s: float) -> Figure:
    """Time some work, and another way to do it; promised are fewer than `limit_s` seconds."""
    ours, *theirs = fastest(ROUNDS, *filter(None, (here, other)))
    return Figure(
        work,
        seconds(ours),
        seconds(theirs[0]) if theirs else "",
        f"{theirs[0] / ours:.1f} x" if theirs else "",
        f"< {seconds(limit_s)}",
        ours < limit_s,
    )


def figures(path: Path, kind: str) -> Iterable[Figure]:
    """Yield the figures of one file."""

    def names() -> object:
        with safe_open(path, "np") as file:
            return list(file.keys())

    def names_and_shapes() -> object:
        with safe_open(path, "np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return [(s.get_shape(), s.get_dtype()) for s in slices.values()]

    def tree() -> object:
        model = TreeModel()
        model.show(ModuleIndex(open_checkpoint(path).tensors.values()))
        return model, [model.row(model.index(row, 0)) for row in range(min(ROWS, model.rowCount()))]

    yield figure(f"open {kind}: the names", lambda: lambda: open_checkpoint(path), lambda: names, 1)
    yield figure(f"open {kind}: the tree and its rows", lambda: tree, lambda: names_and_shapes, 1)
    index = ModuleIndex(open_checkpoint(path).tensors.values())
    for text in ("12.w", "*.12.*w1*", "tensor_?9*"):
        yield figure(f"filter {kind}: {text}", lambda t=text: lambda: index.matches(t), None, 0.05)


def main() -> int:
    """Measure and print; return 1 if a promise is broken, else 0."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    print(table_row([heading.replace("torch", "safetensors") for heading in HEADINGS]))
    held = True
    with tempfile.TemporaryDirectory() as folder:
        for make in (experts, flat):
            path = Path(folder) / f"{make.__name__}.safetensors"
            write(path, make(number))
            for line in figures(path, f"{number:,} {make.__name__}"):
                print(line, flush=True)
                held &= line.held is not False
    del application
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
