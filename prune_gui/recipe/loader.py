"""The few lines that load a reparametrized checkpoint into a model, written beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.recipe.target import OutputPath

HERE: Final = "Path(__file__).parent"
NO_NAME: Final = re.compile(r"\W")
"""What a name in Python cannot hold."""

LOADER: Final = Template('''\
"""Written by Prune GUI beside the checkpoint that it loads."""

${imports}


def load(model: torch.nn.Module, folder: Path = ${folder}) -> torch.nn.Module:
    """Load the checkpoint into a model that was just built, and return the model.

    Each pruned X becomes X_orig and X_mask, as torch.nn.utils.prune keeps them: training goes on
    under the masks, and prune.remove makes them final.
    """
${reading}
    tied = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        tied.setdefault(weight, []).append(name)
    for names in tied.values():  # of one tensor; the file may have it under one of them alone
        for ending in ("", "_orig", "_mask"):
            for stored in [state[name + ending] for name in names if name + ending in state]:
                for name in names:
                    state.setdefault(name + ending, stored)
        for name in names:
            if f"{name}_mask" in state:
                module, _, parameter = name.rpartition(".")
                prune.identity(model.get_submodule(module), parameter)
    model.load_state_dict(state)
    return model
''')


def loader_path(target: OutputPath) -> Path:
    """Return where the lines for a target go: a module that Python can import.

    The suffix is in its name, too, for the same model may lie there as .safetensors and as .pt.
    """
    stem = target.main.partition(".")[0] if target.is_folder else target.path.name
    return _folder(target) / f"load_{NO_NAME.sub('_', stem)}.py"


def loader_text(checkpoint: Checkpoint, target: OutputPath, *, anywhere: bool = False) -> str:
    """Return a program whose `load(model)` loads what is written to `target`.

    Args:
        checkpoint: that was pruned.
        target: where its reparametrized form goes.
        anywhere: whether the lines are to work wherever they are pasted, and so name the folder;
            else they look in their own.
    """
    root: Sequence[str] = ()
    if isinstance(checkpoint, TorchCheckpoint) and target.format == "torch":
        root = checkpoint.root
    return LOADER.substitute(
        imports="\n".join(_imports(target)),
        folder=f"Path({str(_folder(target).absolute())!a})" if anywhere else HERE,
        reading="\n".join(f"    {line}" for line in _reading(target, root)),
    )


def _folder(target: OutputPath) -> Path:
    return target.path if target.is_folder else target.path.parent


def _imports(target: OutputPath) -> Sequence[str]:
    index = ["import json"] if target.is_folder else []
    reader = ["from safetensors.torch import load_file"] if target.format == "safetensors" else []
    prune = "from torch.nn.utils import prune"
    return [*index, "from pathlib import Path", "", "import torch", *reader, prune]


def _reading(target: OutputPath, root: Sequence[str]) -> Sequence[str]:
    """Return the lines that make the dictionary `state`; `root` leads to it inside a torch file."""
    main = ascii(target.main)
    if not target.is_folder:
        keys = "".join(f"[{key!a}]" for key in root)
        return [f"state = {_read(target, f'folder / {main}')}{keys}"]
    return [
        f"index = json.loads((folder / {main}).read_text(encoding='utf-8'))",
        "state = {}",
        'for shard in sorted(set(index["weight_map"].values())):',
        f"    state |= {_read(target, 'folder / shard')}",
    ]


def _read(target: OutputPath, path: str) -> str:
    if target.format == "safetensors":
        return f"load_file({path})"
    return f'torch.load({path}, map_location="cpu", weights_only=True)'
