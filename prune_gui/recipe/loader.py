"""The loader scripts, which load a reparametrized or a compact checkpoint into a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.recipe.output import OutputPath
from prune_gui.resources import resource

NOT_IDENTIFIER: Final = re.compile(r"\W")
"""A character that a Python identifier cannot contain."""


def loader_path(target: OutputPath) -> Path:
    """Return the path of the loader script, a module; a folder may have one for each suffix."""
    stem = target.main.partition(".")[0] if target.is_folder else target.path.name
    return _folder(target) / f"load_{NOT_IDENTIFIER.sub('_', stem)}.py"


def loader_text(
    checkpoint: Checkpoint, target: OutputPath, *, compact: bool = False, anywhere: bool = False
) -> str:
    """Return a script whose `load(model)` loads the checkpoint that is written to `target`.

    Args:
        anywhere: whether the script works wherever it is pasted, by an absolute path; otherwise,
            and for a remote output, it looks in its own folder.
    """
    main, load_code = ascii(target.main), target.format.load_code
    reader = [target.format.load_import] if target.format.load_import else []
    imports = ["import warnings", "from pathlib import Path", "", "import torch", *reader]
    if target.is_sharded:
        imports.insert(0, "import json")
        reading = [
            f"index = json.loads((folder / {main}).read_text(encoding='utf-8'))",
            "state = {}",
            'for shard in sorted(set(index["weight_map"].values())):',
            f"    state |= {load_code.format(path='folder / shard')}",
        ]
    else:
        keys = "".join(f"[{key!a}]" for key in root_in(checkpoint, target))
        reading = [f"state = {load_code.format(path=f'folder / {main}')}{keys}"]
    is_fixed = anywhere and target.url is None
    absolute = f"Path({str(_folder(target).absolute())!a})"
    return Template(_template("load_compact" if compact else "load")).substitute(
        imports="\n".join(imports),
        reading="\n".join(f"    {line}" for line in reading),
        filling=_template("fill"),
        folder=absolute if is_fixed else "Path(__file__).parent",
    )


def _template(name: str) -> str:
    return resource("scripts", f"{name}.py.template").read_text(encoding="utf-8")


def _folder(target: OutputPath) -> Path:
    return target.path if target.is_folder else target.path.parent


def root_in(checkpoint: Checkpoint, target: OutputPath) -> Sequence[str | int]:
    """Return the keys and indices that lead to the state dict inside the written file."""
    # The objects around a state dict are not written in another format, or if they need code.
    is_plain = target.is_tensors_only or bool(checkpoint.foreign)
    is_nested = checkpoint.format == target.format.name and not is_plain
    return checkpoint.root if is_nested else ()


def reading_without_code(checkpoint: Checkpoint, path: str) -> Iterator[str]:
    """Yield the lines that build the dictionary `state` of a file that torch.load refuses."""
    state = f", {checkpoint.state_dict!a}" if len(checkpoint.candidates) > 1 else ""
    yield "# torch.load refuses this file with weights_only=True, and runs the code in it without."
    yield "# Prune GUI reads the tensors, and runs no code of the file."
    yield "import prune_gui"
    yield f"with prune_gui.open_checkpoint({path}{state}) as checkpoint:"
    yield "    state = {key: checkpoint.read_key(key) for key in checkpoint.keys}"
