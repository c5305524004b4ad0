"""Which dimensions of the weights of a checkpoint have output and input channels.

Most weights are (out, in, ...), as those of `Linear` and `Conv` of torch. The others are known from
the classes in the file, from config.json, from the names that flax and Keras give, or from the
lengths of biases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.language import deferred
from prune_gui.pruning.layouts import USUAL, WeightLayout

BY_CLASS: Final = deferred("as the class of the layer, which is in the file")
BY_CONFIG: Final = deferred("as Conv1D of GPT-2, by config.json")
BY_BIAS: Final = deferred("as Conv1D of GPT-2, by the lengths of biases")
TRANSPOSED_BY_BIAS: Final = deferred("as ConvTranspose of torch, by the lengths of biases")
BY_NAME: Final = deferred("as kernels of flax and Keras, by names")

CONV1D_TYPES: Final = frozenset({"gpt2", "openai-gpt", "imagegpt", "decision_transformer", "clvp"})
"""The `model_type`s in config.json of networks with the `Conv1D` of transformers."""
CONV1D: Final = re.compile(r"(^|\.)(?P<layer>c_attn|q_attn|c_proj|c_fc)$")
"""The paths of modules that are `Conv1D` in these networks, and `Linear` in others."""
CONV1D_GROUP: Final = "Conv1D"  # weights of a group have one layout, unless biases tell otherwise
WEIGHTS: Final = frozenset({"weight", "weight_v", "kernel", "kernel:0"})
"""The last components of the names of weights, or of what they are computed from."""
PARAMETRIZED: Final = (".parametrizations.weight.original", ".parametrizations.weight.original1")
KERAS_FORMATS: Final = frozenset({"keras", "hdf5"})
JAX_FORMATS: Final = KERAS_FORMATS | {"flax"}
KERNEL: Final = re.compile(r"(?:^|\.)(?P<kind>|recurrent_|pointwise_|depthwise_)kernel(?::0)?$")
KERAS_VARIABLE: Final = re.compile(r"(?:^|\.)(?P<layer>[^.]+)(?:\.cell)?\.vars\.\d+$")
DIGITS: Final = re.compile(r"\d+")

_known: WeakKeyDictionary[Checkpoint, Mapping[str, WeightLayout]] = WeakKeyDictionary()


def weight_layout(checkpoint: Checkpoint, name: str) -> WeightLayout:
    """Return which dimensions of a parameter have output and input channels."""
    return weight_layouts(checkpoint).get(name, USUAL)


def weight_layouts(checkpoint: Checkpoint) -> Mapping[str, WeightLayout]:
    """Return the layouts of the parameters that are not (out, in, ...), by name."""
    found = _known.get(checkpoint)
    if found is None:
        layouts = _layouts(checkpoint).items()
        found = {name: layout for name, layout in layouts if layout and not layout.is_usual}
        _known[checkpoint] = found
    return found


def _layouts(checkpoint: Checkpoint) -> dict[str, WeightLayout | None]:
    has_kernels = checkpoint.format in JAX_FORMATS or not any(
        name.endswith("weight") for name in checkpoint.tensors
    )
    is_gpt2 = not CONV1D_TYPES.isdisjoint(checkpoint.model_types)
    layouts: dict[str, WeightLayout | None] = {}
    modules: dict[str, str] = {}
    for name, info in checkpoint.tensors.items():
        if len(info.shape) < 2:
            continue
        module = _module_of(name)
        known = None if module is None else _of_class(checkpoint, module)
        if known is None and has_kernels:
            known = _of_kernel(checkpoint, info)
        if known is None and module is not None:
            known = _of_shapes(checkpoint, module, info.shape)
            modules[name] = module
        layouts[name] = known
    if is_gpt2 or any(layout and not layout.is_usual for layout in layouts.values()):
        _share_in_groups(checkpoint, layouts, modules, is_gpt2=is_gpt2)
    return layouts


def _share_in_groups(
    checkpoint: Checkpoint,
    layouts: dict[str, WeightLayout | None],
    modules: Mapping[str, str],
    *,
    is_gpt2: bool,
) -> None:
    """Complete the layouts of weights without evidence by those of modules like theirs."""
    groups: dict[str, list[str]] = {}
    for name, module in modules.items():
        dims = len(checkpoint.tensors[name].shape)
        is_conv1d = dims == 2 and CONV1D.search(module)
        group = CONV1D_GROUP if is_conv1d else f"{DIGITS.sub('', module)} {dims}"
        groups.setdefault(group, []).append(name)
    for group, names in groups.items():
        certain = {layout for name in names if (layout := layouts[name])}
        shared = certain.pop() if len(certain) == 1 else None
        if group == CONV1D_GROUP and is_gpt2 and shared is None and not certain:
            shared = WeightLayout(1, 0, BY_CONFIG)
        for name in names:
            layouts[name] = layouts[name] or shared


def _module_of(name: str) -> str | None:
    """Return the path of the module whose weight a tensor is; None if it is something else."""
    module, _, leaf = name.rpartition(".")
    if leaf in WEIGHTS:
        return module
    modules = (name.removesuffix(end) for end in PARAMETRIZED if name.endswith(end))
    return next(modules, None)


def _of_class(checkpoint: Checkpoint, module: str) -> WeightLayout | None:
    if not checkpoint.module_classes:
        return None
    package, _, kind = checkpoint.module_classes.get(module, "").rpartition(".")
    if kind == "Conv1D" or kind.startswith("ConvTranspose"):
        return WeightLayout(1, 0, BY_CLASS)
    return USUAL if package.startswith("torch.nn.") else None


def _of_kernel(checkpoint: Checkpoint, info: TensorInfo) -> WeightLayout | None:
    last = len(info.shape) - 1
    plain, swapped = WeightLayout(last, last - 1, BY_NAME), WeightLayout(last - 1, last, BY_NAME)
    if match := KERNEL.search(info.name):
        is_swapped = match["kind"] == "depthwise_" or "conv2d_transpose" in info.name
    elif checkpoint.format in KERAS_FORMATS and (match := KERAS_VARIABLE.search(info.name)):
        layer = match["layer"]
        if "embedding" in layer:
            return USUAL
        is_swapped = last > 1 and ("transpose" in layer or layer.startswith("depthwise"))
    else:
        return None
    return swapped if is_swapped else plain


def _of_shapes(checkpoint: Checkpoint, module: str, shape: tuple[int, ...]) -> WeightLayout | None:
    """Return the layout that the bias of a module tells, or None.

    Without a bias, the outputs of a joined `c_attn` are three times as many as its inputs.
    """
    bias = checkpoint.tensors.get(f"{module}.bias" if module else "bias")
    if bias is not None and len(bias.shape) == 1:
        outputs = bias.shape[0]
    elif module.endswith("c_attn") and len(shape) == 2:
        outputs = max(shape) if max(shape) == 3 * min(shape) else 0
    else:
        return None
    dims = [dim for dim, size in enumerate(shape) if size == outputs]
    if len(shape) == 2 or dims in ([0], [1]):
        if dims == [1]:
            return WeightLayout(1, 0, BY_BIAS if len(shape) == 2 else TRANSPOSED_BY_BIAS)
        return USUAL if dims == [0] else None
    return USUAL if shape[0] == outputs != shape[1] else None
