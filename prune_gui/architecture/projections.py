"""Projections of transformer blocks, recognized from names, and the attention heads in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final, cast

from prune_gui.architecture.weight_layouts import weight_layout
from prune_gui.checkpoint import Checkpoint
from prune_gui.resources import resource

ATTENTION: Final = re.compile(r"attn|attention", re.IGNORECASE)
HEAD_KEYS: Final = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEY_VALUE_HEAD_KEYS: Final = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
WIDTH_KEYS: Final = ("hidden_size", "n_embd", "d_model", "dim", "hidden_dim")
HEAD_WIDTH_KEYS: Final = ("head_dim", "d_kv")
INTERLEAVED: Final = "query_key_value"
"""In a module of this name, q, k and v of each head are side by side (GPT-NeoX, BLOOM)."""


class Projection(StrEnum):
    """A linear map of a transformer block; `QKV` is one tensor for three of them."""

    Q = "q"
    K = "k"
    V = "v"
    QKV = "qkv"
    O = "o"  # noqa: E741 - the field's name for the output projection
    GATE = "gate"
    UP = "up"
    DOWN = "down"


FUSED_PARAMETERS: Final = {
    "in_proj_weight": Projection.QKV,
    "in_proj_bias": Projection.QKV,
    "q_proj_weight": Projection.Q,
    "k_proj_weight": Projection.K,
    "v_proj_weight": Projection.V,
}
"""Parameters of torch.nn.MultiheadAttention itself."""


@cache
def _kinds(place: str) -> dict[str, Projection]:
    """Return the projections by the names of modules anywhere, and in a place."""
    from prune_gui.plain_yaml import load_yaml  # yaml: slow to import

    text = resource("networks", "projections.yaml").read_text(encoding="utf-8")
    content = cast("dict[str, dict[str, list[str]]]", load_yaml(text))
    tables = (content["anywhere"], content[place])
    return {name: Projection(kind) for one in tables for kind in one for name in one[kind]}


def projection(name: str) -> Projection | None:
    """Return the projection that a parameter belongs to, or None."""
    module, _, parameter = name.rpartition(".")
    if parameter in FUSED_PARAMETERS:
        return FUSED_PARAMETERS[parameter]
    parts = module.split(".")
    is_inside = any(map(ATTENTION.search, parts[:-1]))
    known = _kinds("in attention" if is_inside else "outside attention")
    tails = (".".join(parts[-length:]) for length in (1, 2, 3))
    return next((known[tail] for tail in tails if tail in known), None)


@dataclass(frozen=True, slots=True)
class Heads:
    """How attention heads of `width` channels divide one dimension; labels such as "3" or "k 3"."""

    dim: int
    width: int
    labels: tuple[str, ...]


def attention_heads(checkpoint: Checkpoint, name: str) -> Heads | None:
    """Return the heads of a parameter; None if it has none or they are not known."""
    kind = projection(name)
    shape = checkpoint.tensors[name].shape
    config = checkpoint.hf_config
    parts = name.split(".")
    own = tuple(f"{side}_attention_heads" for side in ("encoder", "decoder") if side in parts)
    count = _first(config, (*own, *HEAD_KEYS))
    if kind is None or not count or len(shape) not in (1, 2):
        return None
    if len(shape) == 1 and kind is Projection.O:
        return None
    width = _first(config, HEAD_WIDTH_KEYS) or _first(config, WIDTH_KEYS) // count
    key_value_count = _first(config, KEY_VALUE_HEAD_KEYS) or count
    labels, size = _labels(kind, parts[-2:][0], count, key_value_count)
    dim = _head_dim(checkpoint, name, is_output=kind is Projection.O)
    if not labels or not width or shape[dim] != len(labels) * width * size:
        return None
    return Heads(dim, width * size, labels)


def split_evenly(checkpoint: Checkpoint, name: str, count: int) -> Heads | None:
    """Return heads of the inputs of an output projection, or else of the outputs, if they fit."""
    shape = checkpoint.tensors[name].shape
    is_output = projection(name) is Projection.O
    dim = _head_dim(checkpoint, name, is_output=is_output)
    if count < 1 or not shape or shape[dim] % count:
        return None
    return Heads(dim, shape[dim] // count, tuple(map(str, range(count))))


def _head_dim(checkpoint: Checkpoint, name: str, *, is_output: bool) -> int:
    if len(checkpoint.tensors[name].shape) < 2:
        return 0
    layout = weight_layout(checkpoint, name)
    return layout.input_dim if is_output else layout.output_dim


def _labels(
    kind: Projection, module: str, count: int, key_value_count: int
) -> tuple[tuple[str, ...], int]:
    if kind in (Projection.Q, Projection.O):
        return tuple(map(str, range(count))), 1
    if kind in (Projection.K, Projection.V):
        return tuple(map(str, range(key_value_count))), 1
    if kind is not Projection.QKV:
        return (), 1
    if module == INTERLEAVED:
        return tuple(map(str, range(count))), 3
    counts = {"q": count, "k": key_value_count, "v": key_value_count}
    return tuple(f"{which} {head}" for which, n in counts.items() for head in range(n)), 1


def _first(config: Mapping[str, int], keys: tuple[str, ...]) -> int:
    return next((config[key] for key in keys if key in config), 0)
