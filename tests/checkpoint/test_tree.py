"""The tree of modules, and the types that are inferred from the parameters of real ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations

from prune_gui.checkpoint import TensorInfo, module_tree
from prune_gui.checkpoint import tree as tree_module
from prune_gui.checkpoint.tree import MAX_DEPTH, module_types_around

names = st.lists(st.text(alphabet="ab.01é", max_size=12), unique=True, max_size=30)
CLASSES = {
    "": "lib.Net",
    "block": "lib.Block",
    "block.fc": "lib.MyLinear",
    "block.bn": "torch.nn.modules.batchnorm.BatchNorm2d",
    "block.gn": "torch.nn.modules.normalization.GroupNorm",
}
parts = st.sampled_from(["0", "1", "emb", "norm", "weight", "bias", "in_proj_weight", "q_proj"])
shapes = st.sampled_from([(2,), (3,), (3, 2), (2, 2, 2)])
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


def infos(*names: str) -> list[TensorInfo]:
    return [TensorInfo(name, (2, 3), "float32") for name in names]


@given(names)
def test_every_tensor_is_in_the_tree_exactly_once_at_its_own_path(names):
    root = module_tree(infos(*names))
    nodes = [node for node in root.walk() if node.tensor is not None]
    assert sorted(node.path for node in nodes) == sorted(names)
    assert all(node.path == node.tensor.name for node in nodes)
    for node in root.walk():
        under = {step.tensor for step in node.walk() if step.tensor is not None}
        assert under == set(node.tensors)
        assert node.numel == 6 * len(under)
        for child in node.children:
            assert child.path == (f"{node.path}.{child.name}" if node.depth else child.name)
        assert len({child.name for child in node.children}) == len(node.children)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["10.w", "2.w", "0.w", "007.w"], ["0", "2", "007", "10"]),
        (["z.w", "10.w", "a.w", "2.w"], ["z", "10", "a", "2"]),
        (["9" * 5000 + ".w", "1" + "0" * 5000, "3.w"], ["3", "9" * 5000, "1" + "0" * 5000]),
    ],
    ids=["numbers", "other names", "numbers of any length"],
)
def test_siblings_sort_by_number_or_keep_the_order_of_the_file(names, expected):
    assert [node.name for node in module_tree(infos(*names)).children] == expected


def test_a_name_can_be_a_parameter_and_a_module():
    root = module_tree(infos("a.b", "a"))
    (node,) = root.children
    assert node.tensor.name == "a"
    assert [child.path for child in node.children] == ["a.b"]


def test_a_name_of_dots_makes_a_chain_of_bounded_depth():
    root = module_tree(infos("." * 100_000))
    nodes = list(root.walk())
    assert len(nodes) == MAX_DEPTH + 1
    assert nodes[-1].tensor.name == "." * 100_000
    repr(root)


def test_a_tree_of_100_000_tensors_is_complete():
    names = [f"layers.{i // 100}.experts.{i % 100}.w" for i in range(100_000)]
    root = module_tree(infos(*names))
    assert len(root.tensors) == 100_000
    (layers,) = root.children
    assert [node.name for node in layers.children] == [str(i) for i in range(1000)]
    assert [info.name for info in layers.children[7].children[0].tensors] == names[700:800]


def test_classes_in_the_file_are_the_types_of_modules():
    shapes = {"block.fc.weight": (2, 2), "block.gn.weight": (2,), "block.gn.bias": (2,)}
    shapes |= {f"block.bn.{name}": (2,) for name in ("weight", "running_mean", "running_var")}
    root = module_tree(
        [TensorInfo(name, shape, "float32") for name, shape in shapes.items()], CLASSES
    )
    (block,) = root.children
    assert [root.module_type, block.module_type] == ["Net", "Block"]
    assert not block.is_type_inferred
    types = module_types_around(root)
    assert types["block.fc.weight"] == {"Net", "Block", "MyLinear", "Linear"}
    assert types["block.bn.weight"] == {"Net", "Block", "BatchNorm2d", "BatchNorm"}
    assert types["block.gn.weight"] == {"Net", "Block", "GroupNorm"}


@given(
    st.dictionaries(st.lists(parts, min_size=1, max_size=4).map(".".join), shapes),
    st.sampled_from([0, 1, 3]),
)
def test_module_types_around_parameters_equal_those_of_each_module(shapes_by_name, limit):
    root = module_tree(TensorInfo(name, shape, "float32") for name, shape in shapes_by_name.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_module, "MAX_MODULE_PARAMETERS", limit)
        nodes = module_types_around(root)
    expected: dict[str, set[str]] = {name: set() for name in shapes_by_name}
    for node in module_tree(root.below).walk():
        for tensor in node.below if len(node.below) <= limit else ():
            expected[tensor.name] |= {node.module_type} - {""}
    assert nodes == expected


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
        (
            {
                f"attention.{x}.weight": (4, 4)
                for x in ("self.query", "self.key", "self.value", "output.dense")
            },
            {"attention": "Attention", "attention.self": "Attention"}
            | {f"attention.self.{x}": "Linear" for x in ("query", "key", "value")}
            | {"attention.output.dense": "Linear"},
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


@pytest.mark.parametrize(
    "expected",
    [
        "input_layernorm self_attn post_attention_layernorm mlp",
        "q_proj k_proj v_proj o_proj",
        "gate_proj up_proj down_proj",
        "attention intermediate output",
        "embeddings encoder pooler",
        "shared encoder decoder lm_head",
        "model lm_head",
        "conv1 bn1 layer1 layer2 fc",
        "conv1 bn1 conv2 bn2 conv10 bn10 downsample",
    ],
)
def test_modules_are_in_the_order_in_which_they_run_also_in_a_sorted_file(expected):
    for names in (expected.split(), sorted(expected.split())):
        found = [node.name for node in tree_of({f"{name}.weight": (4,) for name in names}).children]
        assert found == expected.split()


def test_modules_whose_names_say_nothing_stay_behind_the_one_before_them():
    names = ["patch_embed", "pos_drop", "norm1", "attn", "ls1", "norm2", "mlp", "ls2", "head"]
    tree = tree_of({f"{name}.weight": (4,) for name in names})
    assert [node.name for node in tree.children] == names
