"""The loader script, which loads a reparametrized checkpoint into a model; parts of any loader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.recipe.output import OutputPath

HERE: Final = "Path(__file__).parent"
NOT_IDENTIFIER: Final = re.compile(r"\W")
"""A character that a Python identifier cannot contain."""

LOADER: Final = Template('''\
"""Written by Prune GUI. Loads the checkpoint in the same folder."""

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
    saved = model.state_dict()
    for name, _ in model.named_buffers():
        if name not in saved:  # the model computes it; earlier versions of it were saved with it
            state.pop(name, None)
    fill(model, state)
    return model
${filling}''')
FILLING: Final = '''

def fill(model, state):
    """Load a state dict; tensors of the model that are on the device meta become those in it."""
    own = model.state_dict(keep_vars=True)
    is_meta = any(tensor.is_meta for tensor in own.values())
    parameters = {}  # by that of the model, so that tied ones stay tied
    for name, tensor in own.items() if is_meta else ():
        if name in state:
            state[name] = state[name].to(tensor.dtype)
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(state[name], tensor.requires_grad)
                state[name] = parameters.setdefault(tensor, new)
    model.load_state_dict(state, assign=is_meta)
    every = [*model.named_parameters(), *model.named_buffers()]
    left = [name for name, tensor in every if tensor.is_meta]
    if left:
        names = ", ".join(left[:5]) + (", ..." if len(left) > 5 else "")
        text = "tensors of the model are not in the file, and stay on meta without values"
        warnings.warn(f"{len(left)} {text}: {names}")
'''
"""The end of loaders: the function that loads the tensors."""


def loader_path(target: OutputPath) -> Path:
    """Return the path of the loader script for an output: a module that Python can import.

    Its name includes the suffix of the output, because a folder may have the same model as
    .safetensors and as .pt.
    """
    stem = target.main.partition(".")[0] if target.is_folder else target.path.name
    return _folder(target) / f"load_{NOT_IDENTIFIER.sub('_', stem)}.py"


def loader_text(checkpoint: Checkpoint, target: OutputPath, *, anywhere: bool = False) -> str:
    """Return a script whose `load(model)` loads the checkpoint that is written to `target`.

    Args:
        checkpoint: the checkpoint that was pruned.
        target: the output path of its reparametrized form.
        anywhere: whether the script contains the absolute path of the folder, so that it works
            wherever it is pasted; otherwise, and for a remote output, it looks in the folder that
            it is in.
    """
    prune = "from torch.nn.utils import prune"
    return LOADER.substitute(
        imports="\n".join([*import_lines(target), prune]),
        folder=f"Path({str(_folder(target).absolute())!a})"
        if anywhere and target.url is None
        else HERE,
        reading="\n".join(
            f"    {line}" for line in reading_lines(target, root_in(checkpoint, target))
        ),
        filling=FILLING,
    )


def _folder(target: OutputPath) -> Path:
    return target.path if target.is_folder else target.path.parent


def root_in(checkpoint: Checkpoint, target: OutputPath) -> Sequence[str | int]:
    """Return the keys and indices that lead to the state dict inside the written file."""
    # The objects around a state dict are not written in another format, or if they need code.
    is_plain = target.is_tensors_only or bool(checkpoint.foreign)
    is_nested = checkpoint.format == target.format.name and not is_plain
    return checkpoint.root if is_nested else ()


def import_lines(target: OutputPath) -> Sequence[str]:
    """Return the imports of a script that reads a checkpoint."""
    index = ["import json"] if target.is_sharded else []
    reader = [target.format.load_import] if target.format.load_import else []
    return [*index, "import warnings", "from pathlib import Path", "", "import torch", *reader]


def reading_lines(target: OutputPath, root: Sequence[str | int]) -> Sequence[str]:
    """Return the lines that build the dictionary `state`."""
    main, load_code = ascii(target.main), target.format.load_code
    if not target.is_sharded:
        keys = "".join(f"[{key!a}]" for key in root)
        return [f"state = {load_code.format(path=f'folder / {main}')}{keys}"]
    return [
        f"index = json.loads((folder / {main}).read_text(encoding='utf-8'))",
        "state = {}",
        'for shard in sorted(set(index["weight_map"].values())):',
        f"    state |= {load_code.format(path='folder / shard')}",
    ]


def reading_without_code(checkpoint: Checkpoint, path: str) -> Iterator[str]:
    """Yield the lines that build the dictionary `state` of a file that torch.load refuses.

    Args:
        checkpoint: the opened file.
        path: a Python expression for its path.
    """
    state = f", {checkpoint.state_dict!a}" if len(checkpoint.candidates) > 1 else ""
    yield "# torch.load refuses this file with weights_only=True, and runs the code in it without."
    yield "# Prune GUI reads the tensors, and runs no code of the file."
    yield "import prune_gui"
    yield f"with prune_gui.open_checkpoint({path}{state}) as checkpoint:"
    yield "    state = {key: checkpoint.read_key(key) for key in checkpoint.keys}"
