"""The projections of transformer blocks, recognized from the names of parameters."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


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


ATTENTION: Final = re.compile(r"attn|attention", re.IGNORECASE)
FUSED_PARAMETERS: Final = {
    "in_proj_weight": Projection.QKV,
    "in_proj_bias": Projection.QKV,
    "q_proj_weight": Projection.Q,
    "k_proj_weight": Projection.K,
    "v_proj_weight": Projection.V,
}
"""Parameters of torch.nn.MultiheadAttention itself."""
ANYWHERE: Final = {
    Projection.Q: {"q_proj", "query", "to_q", "q_lin", "wq", "attn_q"},
    Projection.K: {"k_proj", "key", "to_k", "k_lin", "wk", "attn_k"},
    Projection.V: {"v_proj", "value", "to_v", "v_lin", "wv", "attn_v"},
    Projection.QKV: {"qkv", "qkv_proj", "to_qkv", "Wqkv", "query_key_value", "c_attn", "attn_qkv"},
    Projection.O: {"o_proj", "out_lin", "attn_output"},
    Projection.GATE: {"gate_proj", "w1", "wi_0", "ffn_gate"},
    Projection.UP: {
        "up_proj", "w3", "wi", "wi_1", "fc1", "lin1", "linear1", "c_fc", "fc_in", "dense_h_to_4h",
        "ffn_up",
    },
    Projection.DOWN: {
        "down_proj", "w2", "fc2", "lin2", "linear2", "fc_out", "dense_4h_to_h", "ffn_down",
    },
}  # fmt: skip
IN_ATTENTION: Final = {
    Projection.Q: {"q"},
    Projection.K: {"k"},
    Projection.V: {"v"},
    Projection.O: {"o", "wo", "out", "out_proj", "c_proj", "proj", "proj_out", "dense"},
}
OUTSIDE_ATTENTION: Final = {
    Projection.UP: {"intermediate.dense", "net.0.proj"},
    Projection.DOWN: {"output.dense", "net.2", "c_proj", "wo"},
}


def _by_module(*tables: dict[Projection, set[str]]) -> dict[str, Projection]:
    return {name: kind for table in tables for kind, names in table.items() for name in names}


INSIDE_NAMES: Final = _by_module(ANYWHERE, IN_ATTENTION) | {"to_out.0": Projection.O}
OUTSIDE_NAMES: Final = _by_module(ANYWHERE, OUTSIDE_ATTENTION)


def projection(name: str) -> Projection | None:
    """Return the projection that a parameter belongs to, or None."""
    module, _, parameter = name.rpartition(".")
    if parameter in FUSED_PARAMETERS:
        return FUSED_PARAMETERS[parameter]
    parts = module.split(".")
    # Some names need up to two components before them: "net.0.proj", "output.dense".
    in_attention = any(map(ATTENTION.search, parts[:-1]))
    known = INSIDE_NAMES if in_attention else OUTSIDE_NAMES
    tails = (".".join(parts[-length:]) for length in (1, 2, 3))
    return next((known[tail] for tail in tails if tail in known), None)
