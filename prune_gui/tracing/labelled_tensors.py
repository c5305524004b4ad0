"""The labels of the tensors that a network computes while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from prune_gui.tracing.labels import LabelClasses, compact, varying, without

Layers = tuple[torch.Tensor, ...]

LIKE: Final = ("_like", "new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided")
PRODUCTS: Final = ("mm", "addmm", "bmm", "baddbmm")
"""Operators whose results are channels of layers even without any input, as of learned queries."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator, and the tensors that it returned."""

    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outs: Sequence[torch.Tensor]

    @property
    def name(self) -> str:
        """The name of the operator; that of one in place has no underscore at its end."""
        name: str = self.func._schema.name
        return name.removeprefix("aten::").rstrip("_")

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All tensors among the arguments."""
        return direct_tensors((self.args, self.kwargs))

    @property
    def dim(self) -> int:
        """The second argument, a dimension; it is not negative."""
        dim: int = self.args[1] if len(self.args) > 1 else self.kwargs.get("dim", 0)
        return dim % self.outs[0].ndim


@dataclass(frozen=True, slots=True)
class Shadow:
    """The labels of a tensor.

    `constant` if it is a parameter or follows from some without a layer; `zeros` if it is known to
    have no other values, such as a first state.
    """

    layers: Layers = ()
    constant: bool = True
    zeros: bool = False


class GroupedChannels(NamedTuple):
    """The labels of a convolution with groups: (groups, channels of a group) on both sides.

    `kernel` are the labels of the inputs in its weight, (channels of a group,).
    """

    inputs: torch.Tensor
    outputs: torch.Tensor
    kernel: torch.Tensor


Rule = Callable[[Call], list[Layers] | None]


class LabelledTensors(TorchDispatchMode, ABC):  # type: ignore[no-untyped-call]
    """Gives each tensor that a network computes its layers of labels.

    Attributes:
        classes: the labels of the channels, joined as the operators demand.
        uneven: layers that differ along several dimensions: of one of them whole slices go.
        parts: labels (parts, channels of a part) of equal parts, which keep equally many channels.
        grouped: channels of which groups go whole, or lose equally many each.
        attended: labels of which inner products of activations were made.
        normalized: labels over which a norm, a mean or a softmax was computed.
        read: dimensions of parameters that were contracted with channels.
        embedded: dimensions of parameters whose rows are the channels of tokens.
        unknown: the operators that are not understood; the channels that they saw stay.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.classes = LabelClasses()
        self.uneven: list[torch.Tensor] = []
        self.parts: list[torch.Tensor] = []
        self.grouped: list[GroupedChannels] = []
        self.attended: list[torch.Tensor] = []
        self.normalized: list[torch.Tensor] = []
        self.read: set[tuple[str, int]] = set()
        self.embedded: set[tuple[str, int]] = set()
        self.unknown: set[str] = set()
        self.used: set[str] = set()
        self._names: Any = WeakTensorKeyDictionary()
        self._shadows: Any = WeakTensorKeyDictionary()

    def parameter(self, name: str, tensor: torch.Tensor) -> None:
        """Give the channels of a parameter or buffer labels."""
        layers = []
        for dim, length in enumerate(tensor.shape):
            if length > 1:
                labels = self.classes.add(name, dim, length)
                shape = [length if d == dim else 1 for d in range(tensor.ndim)]
                layers.append(labels.reshape(shape).expand(tensor.shape))
        self._names[tensor] = name
        self._shadows[tensor] = Shadow(tuple(layers), True)

    def input(self, tensor: torch.Tensor) -> None:
        """Note that a tensor is an input, all channels of which stay."""
        self._shadows[tensor] = Shadow((), False)

    def output(self, tensor: torch.Tensor) -> None:
        """Let the channels of an output stay."""
        for layer in self.shadow(tensor).layers:
            self.classes.fix(layer)

    def shadow(self, tensor: torch.Tensor) -> Shadow:
        """Return the labels of a tensor; a tensor that the code makes has none."""
        found: Shadow | None = self._shadows.get(tensor)
        return found or Shadow()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - an operator of torch
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - what the operator returns
        out = func(*args, **(kwargs or {}))
        call = Call(func, args, kwargs or {}, direct_tensors(out))
        tensors = [] if call.name.endswith(LIKE) else call.tensors
        self.used.update(self._names[one] for one in tensors if one in self._names)
        known = [self.shadow(one) for one in tensors]
        layers: list[Layers] | None = [()] * len(call.outs)
        if any(one.layers for one in known):
            rule = self._rule(call)
            try:
                layers = rule(call) if rule else None
            except (RuntimeError, IndexError, TypeError, ValueError):  # a form of it without a rule
                layers = None
        if layers is None:
            self.unknown.add(call.name)
            for layer in (layer for one in known for layer in one.layers):
                self.classes.fix(layer)
            layers = [()] * len(call.outs)
        is_constant = call.name not in PRODUCTS and all(one.constant for one in known)
        for one, of_one in zip(call.outs, layers, strict=True):
            self._shadows[one] = Shadow(self._normal(of_one), is_constant)
        return out

    @abstractmethod
    def _rule(self, call: Call) -> Rule | None:
        """Return what computes the layers of the results of a call; None if it is not known."""

    def _normal(self, layers: Iterable[torch.Tensor]) -> Layers:
        """Return layers of which at most one differs along each dimension."""
        kept: list[torch.Tensor] = []
        for layer in sorted(map(compact, layers), key=lambda one: len(varying(one))):
            dims = varying(layer)
            if not dims:
                self.classes.fix(layer)
                continue
            alike = [one for one in kept if set(varying(one)) & set(dims)]
            for one in alike:
                self.classes.join(one, layer)
            if not alike:
                kept.append(layer)
            if len(dims) > 1:
                self.uneven.append(layer)
        return tuple(kept)

    def _keep_length(self, layer: torch.Tensor, dim: int) -> torch.Tensor:
        """Let a dimension keep its length; return the labels without it, with the length 1."""
        first = without(layer, [dim])
        self.classes.join(first, layer)
        if varying(layer) == [dim]:
            self.classes.fix(first)
        return first

    def _joined(
        self, shape: Sequence[int], shadows: Iterable[Shadow], shapes: Iterable[Sequence[int]]
    ) -> Layers:
        """Return the layers of an elementwise result, whose operands are broadcast."""
        rank = len(shape)
        operands = []
        for shadow, own in zip(shadows, shapes, strict=True):
            lengths = (1,) * (rank - len(own)) + tuple(own)
            layers = [one.reshape(lengths) if one.ndim < rank else one for one in shadow.layers]
            operands.append((layers, lengths, shadow.constant))
        result = []
        for layers, _, _ in operands:
            for layer in layers:
                for dim in varying(layer):
                    is_fixed = any(
                        lengths[dim] > 1
                        and not constant
                        and not any(dim in varying(one) for one in others)
                        for others, lengths, constant in operands
                    )
                    if is_fixed:
                        self._keep_length(layer, dim)
                result.append(layer.expand(shape))
        return tuple(result)


def direct_tensors(value: object) -> list[torch.Tensor]:
    """Return the tensors in nested lists, tuples and mappings."""
    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]


def tensors_in(value: object) -> Iterable[torch.Tensor]:
    """Yield the tensors in what a network returns: tensors, sequences, mappings or objects."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif hasattr(value, "__dict__"):
        yield from tensors_in(vars(value))
