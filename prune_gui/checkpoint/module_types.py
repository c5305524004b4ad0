"""What kind of module parameters belong to, inferred from their names and shapes alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from prune_gui.checkpoint.tensor_info import TensorInfo

MOST: Final = 64
"""Parameters below a module that has a kind; more are a module of modules."""

Shapes = Mapping[str, tuple[int, ...]]

EMBEDDING: Final = re.compile(r"emb|^(wte|wpe|shared)$", re.IGNORECASE)
GROUP_NORM: Final = re.compile(r"group|^gn", re.IGNORECASE)
NORM: Final = re.compile(r"norm|^ln|^(gn|bn)", re.IGNORECASE)
NORMALIZED: Final = re.compile(
    r"(?P<same>\w+)_(v|orig)|parametrizations\.(?P<made>\w+)\.original1?"  # what is a weight
    r"|(?P<other>\w+_[gu]|parametrizations\..*)"  # what goes with it
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
    """Return the kind of a module, such as "Linear"; "" if it cannot be told.

    Args:
        name: of the module, the last part of its path.
        start: where the names of its own parameters begin in theirs.
        below: its parameters.
    """
    shapes = {tensor.name[start:]: tensor.shape for tensor in below}
    inner = {part.partition(".")[0] for part in shapes if "." in part}
    shapes = _without_norms(shapes)
    own = {part: shape for part, shape in shapes.items() if "." not in part}
    if "in_proj_weight" in own or {"q_proj_weight", "k_proj_weight", "v_proj_weight"} <= own.keys():
        return "MultiheadAttention"
    if not own:
        return "Attention" if any(some <= inner for some in PROJECTIONS) else ""
    if len(own) < len(shapes):
        return ""
    return _recurrent(own) or _norm(name, own) or _dense(name, own)


def is_usual(tensor: TensorInfo) -> bool:
    """Tell whether people usually prune such a parameter: no bias, no norm, no embedding."""
    if len(tensor.shape) != 2:
        return len(tensor.shape) > 2
    module = tensor.name.rpartition(".")[0].rpartition(".")[2]
    return EMBEDDING.search(module) is None


def _without_norms(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """Put the weight in the place of what it is computed from; see `roles`."""
    plain = {}
    for part, shape in shapes.items():
        found = NORMALIZED.fullmatch(part)
        if found is None:
            plain[part] = shape
        elif found["same"] or found["made"]:
            plain.setdefault(found["same"] or found["made"], shape)
    return plain


def _recurrent(own: Shapes) -> str:
    for ending, cell in (("_l0", ""), ("", "Cell")):
        inward, hidden = own.get(f"weight_ih{ending}", ()), own.get(f"weight_hh{ending}", ())
        if len(inward) == len(hidden) == 2 and inward[0] == hidden[0]:
            size = own.get(f"weight_hr{ending}", hidden)[1]
            gates = GATES.get(inward[0] // size) if size and inward[0] % size == 0 else None
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


def _dense(name: str, own: Shapes) -> str:
    weight, bias = own.get("weight"), own.get("bias")
    if weight is None or not own.keys() <= {"weight", "bias"} or (bias and len(bias) > 1):
        return ""
    turned = bias is not None and bias != weight[:1]
    if turned and bias != weight[1:2]:
        return ""
    if len(weight) == 2:
        if bias is None and EMBEDDING.search(name):
            return "Embedding"
        return "Conv1D" if turned else "Linear"
    dimensions = CONVOLUTIONS.get(len(weight))
    if dimensions is None:
        return ""
    return f"ConvTranspose{dimensions}" if turned else f"Conv{dimensions}"
