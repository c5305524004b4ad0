"""The loader scripts, which load a reparametrized or a compact checkpoint into a model."""

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
COMPACT_LOADER: Final = Template('''\
"""Written by Prune GUI. Loads the compact checkpoint in the same folder."""

${imports}


def load(model: torch.nn.Module | None = None, folder: Path = Path(__file__).parent):
    """Load the checkpoint, and return the model, whose layers get the widths in the file.

    Args:
        model: the original model, just built. None builds it from config.json with transformers,
            which also renames and joins parameters as `from_pretrained` does.
        folder: the folder of the checkpoint.

    Raises:
        RuntimeError: the model and the checkpoint have different parameters, or config.json names
            no model.
    """
${reading}
    if model is None:
        return load_with_transformers(folder, state)
    tied = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        tied.setdefault(weight, []).append(name)
    for names in tied.values():  # of one tensor; the file may have it under one of them alone
        for stored in [state[name] for name in names if name in state]:
            for name in names:
                state.setdefault(name, stored)
    saved = model.state_dict()
    for name, _ in model.named_buffers():
        if name not in saved:  # the model computes it; earlier versions of it were saved with it
            state.pop(name, None)
    resize_layers(model, state)
    fill(model, state)
    return model


def load_with_transformers(folder, state):
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    if not config.architectures:
        raise RuntimeError("config.json names no architecture: build the model, and load(model).")
    original = getattr(transformers, config.architectures[0])
    prefix = f"{original.base_model_prefix}."  # the file may have it where the model does not
    known = {
        other: tensor
        for name, tensor in state.items()
        for other in (f"{prefix}{name}", name.removeprefix(prefix), name)
    }

    def build(self, *args, **options):
        original.__init__(self, *args, **options)
        for name, _ in self.named_parameters():
            if name not in known and (stored := with_other_path(name, state)):
                known[name] = state[stored]
        resize_layers(self, known)

    members = {"__init__": build, "__module__": original.__module__}
    resized = type(original.__name__, (original,), members)
    model, report = resized.from_pretrained(
        None, config=config, state_dict=state, output_loading_info=True
    )
    for problem in ("missing_keys", "mismatched_keys", "error_msgs"):
        if report.get(problem):
            raise RuntimeError(f"{folder}: {problem}: {sorted(map(str, report[problem]))}")
    model.__class__ = original
    return model


def with_other_path(name, state):
    """Return the name in the file with the longest end of a name; None if it is not certain.

    The paths of models in a model may be others in the file. Of several names, it is the one with
    the most components of the path.
    """
    end, path = name, set(name.split("."))
    while "." in (end := end.partition(".")[2]):
        found = [stored for stored in state if stored.endswith(f".{end}")]
        if found:
            common = [len(path.intersection(stored.split("."))) for stored in found]
            return found[common.index(max(common))] if common.count(max(common)) == 1 else None
    return None


def resize_layers(model, state):
    """Give the parameters of the layers the shapes of the tensors of the same names."""
    resized = {}
    for path, module in model.named_modules():
        for name, old in [*module._parameters.items(), *module._buffers.items()]:
            key = f"{path}.{name}" if path else name
            if old is not None and key in state and old.shape != state[key].shape:
                if type(module).__name__ not in SIZES or old.ndim != state[key].ndim:
                    raise RuntimeError(
                        f"{key} of a {type(module).__name__} cannot be resized from "
                        f"{tuple(old.shape)} to {tuple(state[key].shape)}."
                    )
                if old not in resized:
                    resized[old] = resize(old, state[key].shape)
                if name == "weight":
                    SIZES[type(module).__name__](module, old.shape, state[key].shape)
                setattr(module, name, resized[old])


def resize(old, shape):
    """Return a parameter or buffer like another one, with a new shape and no values."""
    new = torch.empty(shape, dtype=old.dtype, device=old.device)
    is_parameter = isinstance(old, torch.nn.Parameter)
    return torch.nn.Parameter(new, old.requires_grad) if is_parameter else new


def resize_linear(module, _, shape):
    module.out_features, module.in_features = shape


def resize_conv1d(module, _, shape):  # of transformers: a linear layer, transposed
    module.nx, module.nf = shape


def resize_convolution(module, old, shape):
    if module.groups == module.in_channels and shape[0] % (old[0] // module.groups) == 0:
        module.groups = shape[0] // (old[0] // module.groups)  # depthwise
    module.out_channels, module.in_channels = shape[0], shape[1] * module.groups


def resize_batch_norm(module, _, shape):
    (module.num_features,) = shape


SIZES = {
    "Linear": resize_linear,
    "FalconLinear": resize_linear,
    "Conv1D": resize_conv1d,
    "Conv1d": resize_convolution,
    "Conv2d": resize_convolution,
    "Conv3d": resize_convolution,
    "BatchNorm1d": resize_batch_norm,
    "BatchNorm2d": resize_batch_norm,
    "BatchNorm3d": resize_batch_norm,
}
"""By the class of a module, the function that sets its attributes to a new shape of the weight."""
${filling}''')


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
    """Yield the lines that build the dictionary `state` of a file that torch.load refuses."""
    state = f", {checkpoint.state_dict!a}" if len(checkpoint.candidates) > 1 else ""
    yield "# torch.load refuses this file with weights_only=True, and runs the code in it without."
    yield "# Prune GUI reads the tensors, and runs no code of the file."
    yield "import prune_gui"
    yield f"with prune_gui.open_checkpoint({path}{state}) as checkpoint:"
    yield "    state = {key: checkpoint.read_key(key) for key in checkpoint.keys}"


def compact_loader_text(checkpoint: Checkpoint, target: OutputPath) -> str:
    """Return a script whose `load()` or `load(model)` loads the compact form at `target`."""
    return COMPACT_LOADER.substitute(
        imports="\n".join(import_lines(target)),
        reading="\n".join(
            f"    {line}" for line in reading_lines(target, root_in(checkpoint, target))
        ),
        filling=FILLING,
    )
