from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint import TensorInfo, module_tree
from prune_gui.checkpoint import tree as tree_module
from prune_gui.checkpoint.tree import MAX_DEPTH, module_types_around

names = st.lists(st.text(alphabet="ab.01é", max_size=12), unique=True, max_size=30)


def infos(*names: str) -> list[TensorInfo]:
    return [TensorInfo(name, (2, 3), "float32") for name in names]


@given(names)
def test_every_tensor_is_in_the_tree_exactly_once_at_its_own_path(names):
    root = module_tree(infos(*names))
    nodes = [node for node in root.walk() if node.tensor is not None]
    assert sorted(node.path for node in nodes) == sorted(names)
    assert all(node.path == node.tensor.name for node in nodes)


@given(names)
def test_a_node_counts_the_elements_below_it(names):
    for node in module_tree(infos(*names)).walk():
        under = [step.tensor for step in node.walk() if step.tensor is not None]
        assert sorted(under, key=lambda info: info.name) == sorted(
            node.tensors, key=lambda info: info.name
        )
        assert node.numel == 6 * len(under)


@given(names)
def test_the_path_of_a_node_is_the_path_of_its_parent_plus_its_name(names):
    for node in module_tree(infos(*names)).walk():
        for child in node.children:
            assert child.path == (f"{node.path}.{child.name}" if node.depth else child.name)
        assert len({child.name for child in node.children}) == len(node.children)


def test_siblings_with_numbers_for_names_sort_by_number():
    root = module_tree(infos("layer.10.w", "layer.2.w", "layer.0.w", "layer.007.w"))
    assert [node.name for node in root.children[0].children] == ["0", "2", "007", "10"]


def test_other_siblings_keep_the_order_of_the_file():
    root = module_tree(infos("z.w", "10.w", "a.w", "2.w"))
    assert [node.name for node in root.children] == ["z", "10", "a", "2"]


def test_a_name_can_be_a_parameter_and_a_module():
    root = module_tree(infos("a.b", "a"))
    (node,) = root.children
    assert node.tensor.name == "a"
    assert [child.path for child in node.children] == ["a.b"]


def test_numbers_of_any_length_are_sorted():
    root = module_tree(infos("9" * 5000 + ".w", "1" + "0" * 5000 + ".w", "3.w"))
    assert [len(node.name) for node in root.children] == [1, 5000, 5001]


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


CLASSES = {
    "": "lib.Net",
    "block": "lib.Block",
    "block.fc": "lib.MyLinear",
    "block.bn": "torch.nn.modules.batchnorm.BatchNorm2d",
    "block.gn": "torch.nn.modules.normalization.GroupNorm",
}


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


parts = st.sampled_from(["0", "1", "emb", "norm", "weight", "bias", "in_proj_weight", "q_proj"])
shapes = st.sampled_from([(2,), (3,), (3, 2), (2, 2, 2)])


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
