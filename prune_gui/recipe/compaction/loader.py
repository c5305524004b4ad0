"""The loader script of the compact form, for layers of widths that config.json cannot say."""

from __future__ import annotations

from string import Template
from typing import Final

from prune_gui.checkpoint import Checkpoint
from prune_gui.recipe.loader import FILLING, import_lines, reading_lines, root_in
from prune_gui.recipe.output import OutputPath

LOADER: Final = Template('''\
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


def compact_loader_text(checkpoint: Checkpoint, target: OutputPath) -> str:
    """Return a script whose `load()` or `load(model)` loads the compact form at `target`."""
    return LOADER.substitute(
        imports="\n".join(import_lines(target)),
        reading="\n".join(
            f"    {line}" for line in reading_lines(target, root_in(checkpoint, target))
        ),
        filling=FILLING,
    )
