"""The types of modules, inferred from the parameters of real modules."""

from __future__ import annotations

import pytest
from torch import nn
from torch.nn.utils import parametrizations

from prune_gui.checkpoint import TensorInfo, module_tree

MODULES = {
    "Linear": nn.Linear(3, 5),
    "Linear ": nn.Linear(3, 3, bias=False),
    "Embedding": nn.Embedding(9, 4),
    "Conv1d": nn.Conv1d(2, 6, 3),
    "Conv2d": nn.Conv2d(2, 6, 3, bias=False),
    "Conv3d": nn.Conv3d(2, 6, 3),
    "ConvTranspose2d": nn.ConvTranspose2d(2, 6, 3),
    "LayerNorm": nn.LayerNorm(4),
    "RMSNorm": nn.RMSNorm(4),
    "GroupNorm": nn.GroupNorm(2, 4),
    "BatchNorm": nn.BatchNorm2d(4),
    "BatchNorm ": nn.BatchNorm1d(4, affine=False),
    "LSTM": nn.LSTM(3, 4, 2, bidirectional=True),
    "LSTM ": nn.LSTM(3, 4, proj_size=2),
    "GRU": nn.GRU(3, 4),
    "RNN": nn.RNN(3, 4),
    "LSTMCell": nn.LSTMCell(3, 4),
    "MultiheadAttention": nn.MultiheadAttention(4, 2),
    "MultiheadAttention ": nn.MultiheadAttention(4, 2, kdim=3, vdim=3),
    "Linear  ": parametrizations.weight_norm(nn.Linear(3, 5)),
    "Conv2d ": parametrizations.spectral_norm(nn.Conv2d(3, 5, 3)),
    "": nn.PReLU(),
    " ": nn.TransformerEncoderLayer(4, 2, 8),
    "  ": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
}


def tree_of(shapes):
    tensors = [TensorInfo(name, tuple(shape), "float32") for name, shape in shapes.items()]
    return module_tree(tensors)


def types_of(shapes):
    return {node.path: node.module_type for node in tree_of(shapes).walk() if node.module_type}


@pytest.mark.parametrize("kind", MODULES)
def test_the_type_of_a_torch_module_is_inferred_from_its_parameters(kind):
    name = kind.strip().lower() or "m"
    shapes = {f"a.{name}.{key}": value.shape for key, value in MODULES[kind].state_dict().items()}
    types = {node.path: node.module_type for node in tree_of(shapes).walk()}
    assert types[f"a.{name}"] == kind.strip()
    assert types["a"] == ""


@pytest.mark.parametrize(
    ("shapes", "types"),
    [
        ({"lm_head.weight": (90, 4)}, {"lm_head": "Linear"}),
        ({"wte.weight": (90, 4)}, {"wte": "Embedding"}),
        ({"c_fc.weight": (4, 16), "c_fc.bias": (16,)}, {"c_fc": "Conv1D"}),
        ({"LayerNorm.gamma": (4,), "LayerNorm.beta": (4,)}, {"LayerNorm": "LayerNorm"}),
        (
            {f"attn.{x}_proj.weight": (4, 4) for x in "qkvo"},
            {"attn": "Attention"} | {f"attn.{x}_proj": "Linear" for x in "qkvo"},
        ),
        ({"scale.weight": (4,)}, {}),
        ({"a.weight": (4, 4), "a.bias": (7,)}, {}),
        ({"a.weight": (4, 4), "a.scale": (4,)}, {}),
        ({"a.weight": ()}, {}),
        ({"a.weight": (1, 2, 3, 4, 5, 6)}, {}),
        ({"a.weight_ih_l0": (5, 3), "a.weight_hh_l0": (5, 4)}, {}),
        ({"a.weight_ih_l0": (0, 3), "a.weight_hh_l0": (0, 0)}, {}),
        ({"weight": (3, 2), "bias": (3,)}, {"": "Linear"}),
    ],
)
def test_names_and_shapes_decide_the_type_or_it_is_empty(shapes, types):
    assert types_of(shapes) == types


def test_a_module_with_many_parameters_is_not_expanded():
    root = tree_of({f"experts.{i}.weight": (2, 2) for i in range(100_000)})
    (experts,) = root.children
    assert (root.module_type, experts.module_type) == ("", "")
    assert "children" not in vars(experts)
