"""The tree of modules that the names of parameters form, and their types by names and shapes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from types import MappingProxyType
from typing import Final

from prune_gui.checkpoint.tensor_info import TensorInfo

MAX_DEPTH: Final = 64
"""Deeper components of a name are not split, so that no file can make an endless chain."""
TORCH_MODULES: Final = "torch.nn."
"""The start of the names of the modules of torch."""
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
ATTENTION: Final = re.compile("(attn|attention)$", re.IGNORECASE)
CONVOLUTIONS: Final = {3: "1d", 4: "2d", 5: "3d"}
GATES: Final = {4: "LSTM", 3: "GRU", 1: "RNN"}
STAGES: Final = (
    r"emb(?!ed_out)|^(w[tp]e|shared|stem|patch.*)$",
    r"^(encoder|vision.*)$",
    r"input_layernorm|layernorm_before|^(ln|norm)_?1$|^att\w*_norm$",
    r"^(w?q|q_.*|.*_q|query)$",
    r"^(w?k|k_.*|.*_k|key)$",
    r"^(w?v|v_.*|.*_v|value)$",
    r"^(?!post_|cross|enc).*att|^self$",
    r"cross|^enc.*att",
    r"post_attention|layernorm_after|^(ln|norm)_?2$|ffn_norm|pre_feedforward",
    r"gate|^wi_0$",
    r"^up|_up$|^(wi|wi_1|fc1|c_fc|lin\w*1)$",
    r"mlp|ffn|feed_?forward|intermediate|moe|expert",
    r"^down|_down$|^(fc2|lin\w*2)$",
    r"^(w?o|o_.*|out.*|c_proj|proj)$",
    r"^decoder$",
    r"^(lm_head|embed_out|classifier|head|score|pooler|qa_outputs|fc|final_.*)$",
)
"""Regular expressions for names of modules beside each other, in the order in which they run."""
NUMBERED_LAYER: Final = re.compile(r"(conv|bn)_?(\d{1,9})")
MAX_LAYERS: Final = 10**9
FIRST_NORM, ATTENTION_STAGE, SECOND_NORM = 2, 6, 8
EMBEDDING_STAGE, HEAD_STAGE = 0, len(STAGES) - 1


@dataclass(frozen=True, eq=False)
class ModuleNode:
    """A module, or a parameter, or (rarely) both.

    Attributes:
        path: the dotted path from the root; "" at the root.
        tensor: the parameter with exactly this path, if there is one.
        below: the parameters under this node without `tensor`, in file order.
        module_classes: the dotted names of the classes of modules by path, if the file has them.
    """

    name: str
    path: str
    tensor: TensorInfo | None
    below: tuple[TensorInfo, ...]
    depth: int
    module_classes: Mapping[str, str]

    @cached_property
    def children(self) -> tuple[ModuleNode, ...]:
        """The next level, in numerical order if all names are numbers, else `in_forward_order`.

        Computed on first use, so that only the expanded part of a large tree costs time.
        """
        start = len(self.path) + 1 if self.depth else 0
        last_level = self.depth == MAX_DEPTH - 1
        groups: dict[str, list[TensorInfo]] = {}
        for tensor in self.below:
            end = -1 if last_level else tensor.name.find(".", start)
            part = tensor.name[start:] if end < 0 else tensor.name[start:end]
            groups.setdefault(part, []).append(tensor)
        names = list(groups)
        if all(name.isascii() and name.isdigit() for name in names):
            names.sort(key=_number_order)
        else:
            names = in_forward_order(names)
        return tuple(self._child(name, groups[name]) for name in names)

    def _child(self, name: str, tensors: list[TensorInfo]) -> ModuleNode:
        path = f"{self.path}.{name}" if self.depth else name
        if len(tensors) == 1 and tensors[0].name == path:  # the most frequent case
            return ModuleNode(name, path, tensors[0], (), self.depth + 1, self.module_classes)
        own = next((tensor for tensor in tensors if tensor.name == path), None)
        below = tuple(tensor for tensor in tensors if tensor is not own)
        return ModuleNode(name, path, own, below, self.depth + 1, self.module_classes)

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """The parameters at and below this node."""
        return self.below if self.tensor is None else (self.tensor, *self.below)

    @cached_property
    def numel(self) -> int:
        """Number of elements of the parameters at and below this node."""
        return sum(tensor.numel for tensor in self.tensors)

    @cached_property
    def module_type(self) -> str:
        """The type of the module; "" if it is not known; see `is_type_inferred`."""
        if self.path in self.module_classes:
            return self.module_classes[self.path].rpartition(".")[2] if self.below else ""
        return self.inferred_type

    @property
    def is_type_inferred(self) -> bool:
        """Whether `module_type` is inferred from names and shapes, and not given by the file."""
        return self.path not in self.module_classes

    @property
    def is_torch_module(self) -> bool:
        """Whether the file gives the class of the module, and it is one of torch."""
        return self.module_classes.get(self.path, "").startswith(TORCH_MODULES)

    @cached_property
    def inferred_type(self) -> str:
        """The type as inferred from names and shapes; "" if it cannot be."""
        if not 0 < len(self.below) <= MAX_MODULE_PARAMETERS:
            return ""
        return module_type(self.name, len(self.path) + 1 if self.depth else 0, self.below)

    def walk(self) -> Iterator[ModuleNode]:
        """Yield this node and all nodes below it, each before its children."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


def module_tree(
    tensors: Iterable[TensorInfo], module_classes: Mapping[str, str] = MappingProxyType({})
) -> ModuleNode:
    """Return the root of the tree of `tensors`, whose names must be unique; see `ModuleNode`."""
    return ModuleNode("", "", None, tuple(tensors), 0, module_classes)


def in_forward_order(names: Iterable[str]) -> list[str]:
    """Return the names of modules beside each other in the order in which they run.

    A name that does not say when it runs stays behind the one before it. Batch norms follow the
    convolutions of their number.
    """
    keys, at, names = {}, 0, list(names)
    has_batch_norms = any(name.startswith("bn") for name in names)
    for name in names:
        stage, numbered = stage_of(name), NUMBERED_LAYER.match(name) if has_batch_norms else None
        at = at if stage is None else stage
        number = int(numbered[2]) if numbered else MAX_LAYERS
        keys[name] = at, number, bool(numbered and numbered[1] == "bn")
        at = min(at, HEAD_STAGE - 1)  # what follows the head in the file need not follow it
    return sorted(keys, key=keys.__getitem__)


@lru_cache(maxsize=1 << 12)
def stage_of(name: str) -> int | None:
    """Return the index in `STAGES` of the name of a module; None if it does not say."""
    stages = enumerate(STAGES)
    return next((i for i, stage in stages if re.search(stage, name, re.IGNORECASE)), None)


def without_shared_start(names: Sequence[str]) -> dict[str, str]:
    """Return names without the components that all begin with, by name; one alone stays."""
    if len(set(names)) <= 1:
        return {name: name for name in names}
    length = sum(len(part) + 1 for part in shared_start(name.split(".")[:-1] for name in names))
    return {name: name[length:] for name in names}


def shared_start(paths: Iterable[Sequence[str]]) -> list[str]:
    """Return the components that all paths begin with."""
    at_depth = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return [parts[0] for parts in at_depth]


def module_types_around(tree: ModuleNode) -> dict[str, frozenset[str]]:
    """Return the types of the modules that contain each parameter below a node.

    Modules of the same structure, such as the blocks of a network, are analysed once. If the class
    of a module is known and is not one of torch, the module also has the type that is inferred.
    """
    if tree.module_classes:
        return _module_types_within(tree)
    types_by_name: dict[str, frozenset[str]] = {}
    types_by_structure: dict[Hashable, tuple[frozenset[str], ...]] = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        if len(node.below) > MAX_MODULE_PARAMETERS:  # has no type
            types_by_name.update(
                (one.tensor.name, frozenset()) for one in node.children if one.tensor
            )
            stack += [child for child in node.children if child.below]
            continue
        start = len(node.path) + 1 if node.depth else 0
        members = tuple((tensor.name[start:], tensor.shape) for tensor in node.below)
        structure = node.depth, "" if node.name.isdigit() else node.name, members
        if structure not in types_by_structure:
            within = _module_types_within(node)
            types_by_structure[structure] = tuple(within[tensor.name] for tensor in node.below)
        types_by_name.update(
            zip((tensor.name for tensor in node.below), types_by_structure[structure], strict=True)
        )
    return types_by_name


def _module_types_within(tree: ModuleNode) -> dict[str, frozenset[str]]:
    types_by_name: dict[str, frozenset[str]] = {}
    stack: list[tuple[ModuleNode, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        node, outer_types = stack.pop()
        types = outer_types | _types_of(node)
        for child in node.children:
            if child.tensor is not None:
                types_by_name[child.tensor.name] = types
            if child.below:
                stack.append((child, types))
    return types_by_name


def _types_of(node: ModuleNode) -> frozenset[str]:
    """Return the type of a module, and the inferred type if that may be true, too."""
    known, inferred = node.module_type, node.inferred_type
    is_exact = node.is_torch_module and not known.startswith(inferred)  # as BatchNorm2d
    return frozenset(filter(None, (known, "" if is_exact else inferred)))


def _number_order(digits: str) -> tuple[int, str, int]:
    """Return a sort key by value without a conversion: `int` refuses more than 4300 digits."""
    significant = digits.lstrip("0")
    return len(significant), significant, len(digits)


def module_type(name: str, start: int, below: Iterable[TensorInfo]) -> str:
    """Return the type of a module, such as "Linear"; "" if it cannot be inferred."""
    shapes = {tensor.name[start:]: tensor.shape for tensor in below}
    inner = {part.partition(".")[0] for part in shapes if "." in part}
    shapes = _with_plain_weights(shapes)
    own = {part: shape for part, shape in shapes.items() if "." not in part}
    if "in_proj_weight" in own or {"q_proj_weight", "k_proj_weight", "v_proj_weight"} <= own.keys():
        return "MultiheadAttention"
    if not own:
        if ATTENTION.search(name):  # the output projection may be beside the module of the others
            inner = inner.union(part.split(".")[1] for part in shapes if part.count(".") > 1)
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
