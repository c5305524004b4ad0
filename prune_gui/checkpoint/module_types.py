"""The types of modules, inferred from the names and shapes of their parameters alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from prune_gui.checkpoint.tensor_info import TensorInfo

MAX_MODULE_PARAMETERS: Final = 64
"""A module with more parameters below it is a container of modules and has no type."""

Shapes = Mapping[str, tuple[int, ...]]

EMBEDDING: Final = re.compile(r"emb|^(wte|wpe|shared|token_types)$", re.IGNORECASE)
GROUP_NORM: Final = re.compile(r"group|^gn", re.IGNORECASE)
NORM: Final = re.compile(r"norm|^ln|^(gn|bn)", re.IGNORECASE)
# The first two groups are tensors of the shape of the weight, the third one all others.
DERIVED_WEIGHT: Final = re.compile(
    r"(?P<legacy>\w+)_(v|orig)|parametrizations\.(?P<parametrized>\w+)\.original1?"
    r"|(?P<auxiliary>\w+_[gu]|parametrizations\..*)"
)
PROJECTIONS: Final = (
    {"q_proj", "k_proj", "v_proj"},
    {"query", "key", "value"},
    {"to_q", "to_k", "to_v"},
    {"qkv"},
    {"Wqkv"},
    {"c_attn", "c_proj"},
)
CONVOLUTIONS: Final = {3: "1d", 4: "2d", 5: "3d"}
GATES: Final = {4: "LSTM", 3: "GRU", 1: "RNN"}


def module_type(name: str, start: int, below: Iterable[TensorInfo]) -> str:
    """Return the type of a module, such as "Linear"; "" if it cannot be inferred."""
    shapes = {tensor.name[start:]: tensor.shape for tensor in below}
    inner = {part.partition(".")[0] for part in shapes if "." in part}
    shapes = _with_plain_weights(shapes)
    own = {part: shape for part, shape in shapes.items() if "." not in part}
    if "in_proj_weight" in own or {"q_proj_weight", "k_proj_weight", "v_proj_weight"} <= own.keys():
        return "MultiheadAttention"
    if not own:
        return "Attention" if any(some <= inner for some in PROJECTIONS) else ""
    if len(own) < len(shapes):
        return ""
    return _recurrent(own) or _norm(name, own) or _linear_or_convolution(name, own)


def is_usually_pruned(tensor: TensorInfo) -> bool:
    """Return whether a parameter is usually pruned: no bias, norm weight, embedding or buffer."""
    if tensor.kind is not None or len(tensor.shape) != 2:
        return tensor.kind is None and len(tensor.shape) > 2
    module = tensor.name.rpartition(".")[0].rpartition(".")[2]
    return EMBEDDING.search(module) is None


def _with_plain_weights(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """Replace the tensors that a weight is computed from by the weight; see `roles`."""
    weights = {}
    for part, shape in shapes.items():
        match = DERIVED_WEIGHT.fullmatch(part)
        if match is None:
            weights[part] = shape
        elif match["legacy"] or match["parametrized"]:
            weights.setdefault(match["legacy"] or match["parametrized"], shape)
    return weights


def _recurrent(own: Shapes) -> str:
    for suffix, cell in (("_l0", ""), ("", "Cell")):
        weight_ih, weight_hh = own.get(f"weight_ih{suffix}", ()), own.get(f"weight_hh{suffix}", ())
        if len(weight_ih) == len(weight_hh) == 2 and weight_ih[0] == weight_hh[0]:
            size = own.get(f"weight_hr{suffix}", weight_hh)[1]
            gates = GATES.get(weight_ih[0] // size) if size and weight_ih[0] % size == 0 else None
            return f"{gates}{cell}" if gates else ""
    return ""


def _norm(name: str, own: Shapes) -> str:
    if "running_mean" in own and "running_var" in own:
        return "BatchNorm"
    if own.keys() == {"gamma", "beta"}:
        own = {"weight": own["gamma"], "bias": own["beta"]}
    weight, bias = own.get("weight"), own.get("bias")
    if weight is None or len(weight) != 1 or not own.keys() <= {"weight", "bias"}:
        return ""
    if bias == weight:
        return "GroupNorm" if GROUP_NORM.search(name) else "LayerNorm"
    return "RMSNorm" if bias is None and NORM.search(name) else ""


def _linear_or_convolution(name: str, own: Shapes) -> str:
    weight, bias = own.get("weight"), own.get("bias")
    if weight is None or not own.keys() <= {"weight", "bias"} or (bias and len(bias) > 1):
        return ""
    transposed = bias is not None and bias != weight[:1]
    if transposed and bias != weight[1:2]:
        return ""
    if len(weight) == 2:
        if bias is None and EMBEDDING.search(name):
            return "Embedding"
        return "Conv1D" if transposed else "Linear"
    dimensions = CONVOLUTIONS.get(len(weight))
    if dimensions is None:
        return ""
    return f"ConvTranspose{dimensions}" if transposed else f"Conv{dimensions}"
