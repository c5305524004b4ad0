"""Follows channels through a network: a rule for each kind of operator of torch.

Each tensor has layers of labels. A layer has the shape of the tensor, and says of each element
with which channel it goes. Operators that only move elements move the labels in the same way, so
that the rules for views, concatenation, splitting, shuffling and flattening are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import torch

from prune_gui.tracing.labelled_tensors import (
    Call,
    GroupedChannels,
    LabelledTensors,
    Layers,
    Rule,
    Shadow,
    direct_tensors,
)
from prune_gui.tracing.labels import compact, divided, varying, without

Shape = Sequence[int]

MOVES: Final = frozenset(
    """_reshape_copy _to_copy _unsafe_view alias channel_shuffle clone contiguous
    detach expand_copy flip im2col index index_select lift_fresh native_channel_shuffle
    permute_copy pixel_shuffle pixel_unshuffle repeat repeat_interleave reshape roll rot90 tril triu
    unsafe_chunk unsafe_split unsafe_split_with_sizes view_copy""".split()  # noqa: SIM905
)
VIEWS: Final = frozenset(["view", "_unsafe_view", "_reshape_alias", "reshape"])
POINTWISE: Final = frozenset(
    ["hardswish", "prelu", "_prelu_kernel", "rrelu_with_noise", "dropout", "native_dropout"]
)
"""Operators that torch does not tag as elementwise."""
REDUCTIONS: Final = frozenset(
    """sum mean var std amax amin max min prod logsumexp norm linalg_vector_norm var_mean std_mean
    argmax argmin any all count_nonzero""".split()  # noqa: SIM905
)
EXACT_REDUCTIONS: Final = frozenset(["sum", "norm", "linalg_vector_norm"])
ALONG: Final = frozenset(["_softmax", "_log_softmax", "softmax", "log_softmax", "cumsum"])
MOST_SLICES: Final = 4
"""A slice of at least this share of a dimension is one of several equal parts, such as a half."""
LOCAL: Final = ("pool", "upsample", "reflection_pad", "replication_pad", "grid_sampler")
"""Parts of the names of operators on positions of images and sequences, channel by channel."""


class ChannelTrace(LabelledTensors):  # type: ignore[no-untyped-call]
    """Follows channels while a network runs."""

    def _rule(self, call: Call) -> Rule | None:
        name = call.name
        rule: Rule | None = getattr(self, f"_{name.lstrip('_')}", None)
        if rule is not None:
            return rule
        if "batch_norm" in name:
            return self._batch_norm
        if "scaled_dot_product" in name:
            return self._attention
        if name in ALONG:
            return self._along
        if name in REDUCTIONS:
            return self._reduce
        if name in POINTWISE or (torch.Tag.pointwise in call.func.tags and name not in MOVES):
            return self._pointwise
        if call.func.is_view or name in MOVES or torch.Tag.inplace_view in call.func.tags:
            return self._move
        return self._local if any(part in name for part in LOCAL) else None

    def _pointwise(self, call: Call) -> list[Layers]:
        shadows, shapes = map(self.shadow, call.tensors), [one.shape for one in call.tensors]
        return [self._joined(call.outs[0].shape, shadows, shapes)] * len(call.outs)

    def _copy(self, call: Call) -> list[Layers] | None:
        target, source = call.args[:2]
        if target._is_view():  # the tensor that it is a view of changes, too
            return None
        return [self._joined(target.shape, [self.shadow(source)], [source.shape])]

    def _move(self, call: Call) -> list[Layers]:
        name, args = call.name, call.args[1:]
        if name == "_to_copy":
            return [self.shadow(call.args[0]).layers]
        is_in_place = torch.Tag.inplace_view in call.func.tags
        move = getattr(torch.ops.aten, name) if is_in_place else call.func
        results: list[list[torch.Tensor]] = [[] for _ in call.outs]
        for layer in self._apart(call) if name in VIEWS else self.shadow(call.args[0]).layers:
            if "channel_shuffle" in name and 1 in varying(layer):
                self.uneven.append(compact(divided(layer, 1, args[0])))
            moved = (
                layer.reshape(call.outs[0].shape)
                if name in VIEWS
                else move(layer, *args, **call.kwargs)
            )
            for result, one in zip(results, direct_tensors(moved), strict=True):
                result.append(one)
            dim, count = _equal_parts(call)
            if count > 1 and dim in varying(layer):
                parts = divided(layer.movedim(dim, 0), 0, count)
                if len(varying(layer)) == 1:
                    self.parts.append(parts.flatten(2)[..., 0])
                else:
                    self.uneven.append(compact(parts))
        return [tuple(result) for result in results]

    def _apart(self, call: Call) -> Iterator[torch.Tensor]:
        """Yield the layers of a tensor whose dimensions a view joins, such as heads and channels.

        Of layers that differ along one dimension of the view, that of the first dimension of its
        parameter is divided, and the others keep their length.
        """
        taken: set[int] = set()
        for layer in sorted(self.shadow(call.args[0]).layers, key=lambda one: int(one.max())):
            dims = varying(compact(layer.reshape(call.outs[0].shape)))
            if taken.isdisjoint(dims):
                taken.update(dims)
                yield layer
            else:
                self.classes.fix(layer)

    def _constant_pad_nd(self, call: Call) -> list[Layers]:
        result = []
        [out] = call.outs
        for layer in self.shadow(call.args[0]).layers:
            padded = [dim for dim, length in enumerate(out.shape) if length != layer.shape[dim]]
            if set(padded).isdisjoint(varying(layer)):
                result.append(without(layer, padded).expand(out.shape))
            else:
                result.append(call.func(layer, call.args[1]))  # with channels that stay
        return [tuple(result)]

    def _view_as_complex(self, call: Call) -> list[Layers]:
        layers = self.shadow(call.args[0]).layers
        last = call.outs[0].ndim
        return [
            tuple(
                (self._keep_length(one, last) if last in varying(one) else one).select(last, 0)
                for one in layers
            )
        ]

    def _view_as_real(self, call: Call) -> list[Layers]:
        layers = self.shadow(call.args[0]).layers
        return [tuple(one.unsqueeze(-1).expand(call.outs[0].shape) for one in layers)]

    def _as_strided(self, call: Call) -> list[Layers] | None:
        return (
            [self.shadow(call.args[0]).layers] if call.outs[0].shape == call.args[0].shape else None
        )

    def _cat(self, call: Call) -> list[Layers]:
        dim = call.dim
        tensors = [one for one in call.args[0] if one.ndim == call.outs[0].ndim]
        along, across = [], []
        for tensor in tensors:
            shadow = self.shadow(tensor)
            of_dim = [one for one in shadow.layers if dim in varying(one)]
            others = tuple(one for one in shadow.layers if dim not in varying(one))
            zeros = torch.zeros(1, dtype=torch.int64).expand(tensor.shape)
            along.append(of_dim[0] if of_dim else zeros)
            across.append(Shadow(tuple(without(one, [dim]) for one in others), shadow.constant))
        shapes = [[1 if d == dim else n for d, n in enumerate(one.shape)] for one in tensors]
        shape = [1 if d == dim else n for d, n in enumerate(call.outs[0].shape)]
        joined = tuple(
            one.expand(call.outs[0].shape) for one in self._joined(shape, across, shapes)
        )
        return [(torch.cat(along, dim), *joined)]

    def _stack(self, call: Call) -> list[Layers]:
        dim = call.dim
        shadows = [self.shadow(one) for one in call.args[0]]
        joined = self._joined(call.args[0][0].shape, shadows, [one.shape for one in call.args[0]])
        return [tuple(one.unsqueeze(dim).expand(call.outs[0].shape) for one in joined)]

    def _local(self, call: Call) -> list[Layers]:
        result: list[Layers] = []
        for out in call.outs:
            layers = []
            for layer in self.shadow(call.args[0]).layers:
                changed = [d for d, n in enumerate(out.shape) if n != layer.shape[d]]
                for dim in changed:
                    if dim in varying(layer):
                        layer = self._keep_length(layer, dim)
                layers.append(without(layer, changed).expand(out.shape))
            result.append(tuple(layers))
        return result

    def _reduce(self, call: Call) -> list[Layers]:
        source = call.args[0]
        given = {
            one.name: value
            for one, value in zip(call.func._schema.arguments, call.args, strict=False)
        } | dict(call.kwargs)
        dims = given.get("dim")
        dims = (
            range(source.ndim) if dims in (None, []) else [dims] if isinstance(dims, int) else dims
        )
        dims = [dim % source.ndim for dim in dims] if source.ndim else []
        layers = []
        for layer in self.shadow(source).layers:
            reduced = [dim for dim in varying(layer) if dim in dims]
            if reduced and call.name not in EXACT_REDUCTIONS:
                self.normalized.append(layer)
            others = [dim for dim in varying(layer) if dim not in dims]
            if reduced and not others:
                continue
            for dim in reduced:
                layer = self._keep_length(layer, dim)
            first = without(layer, dims)
            kept = given.get("keepdim", False)
            layers.append(first if kept else first.reshape(call.outs[0].shape))
        return [tuple(layers)] * len(call.outs)

    def _along(self, call: Call) -> list[Layers]:
        layers = self.shadow(call.args[0]).layers
        self.normalized += [one for one in layers if call.dim in varying(one)]
        return [layers]

    def _glu(self, call: Call) -> list[Layers]:
        dim = call.args[1] if len(call.args) > 1 else -1
        halves = [one.chunk(2, dim) for one in self.shadow(call.args[0]).layers]
        for first, second in halves:
            self.classes.join(first, second)
        return [tuple(first for first, _ in halves)]

    def _contract(self, first: Shadow, second: Shadow, shape: Sequence[int]) -> Layers:
        """Return the layers of a product (..., n, k) @ (..., k, m), and join both along k."""
        of_first = [one.unsqueeze(-1) for one in first.layers]  # (..., n, k, 1)
        of_second = [one.unsqueeze(-3) for one in second.layers]  # (..., 1, k, m)
        inner = len(shape) - 1
        along = [[one for one in side if inner in varying(one)] for side in (of_first, of_second)]
        both_change = not first.constant and not second.constant
        rest = []
        for own, others, is_parameter, any_width in (
            (along[0], along[1], first.constant, second.zeros),
            (along[1], along[0], second.constant, first.zeros),
        ):
            for layer in own:
                if any_width:
                    continue
                if not others and len(varying(layer)) == 1:
                    self.classes.fix(layer)
                if is_parameter:
                    self._note_read(layer)
                if both_change or not others:
                    self.attended.append(layer)
                    if len(varying(layer)) > 1:
                        rest.append(self._keep_length(layer, inner))
        for one in along[0]:
            for other in along[1]:
                self.classes.join(one, other)
        rest += [one for one in (*of_first, *of_second) if inner not in varying(one)]
        return tuple(without(one, [inner]).squeeze(inner).expand(shape) for one in rest)

    def _factor(self, tensor: torch.Tensor) -> Shadow:
        """Return the labels of a factor of a product, which may be a first state of zeros."""
        shadow = self.shadow(tensor)
        can_be = shadow.constant and not shadow.layers and not tensor.is_meta
        return Shadow(zeros=True) if can_be and not tensor.any() else shadow

    def _mm(self, call: Call) -> list[Layers]:
        first, second = map(self._factor, call.args[:2])
        return [self._contract(first, second, call.outs[0].shape)]

    _bmm = _mm

    def _mv(self, call: Call) -> list[Layers]:
        vector = self.shadow(call.args[1])
        column = Shadow(tuple(one.unsqueeze(-1) for one in vector.layers), vector.constant)
        layers = self._contract(self.shadow(call.args[0]), column, (*call.outs[0].shape, 1))
        return [tuple(one.squeeze(-1) for one in layers)]

    def _addmm(self, call: Call) -> list[Layers]:
        shape = call.outs[0].shape
        first, second = map(self._factor, call.args[1:3])
        product = Shadow(
            self._normal(self._contract(first, second, shape)), first.constant and second.constant
        )
        shadows = [self.shadow(call.args[0]), product]
        return [self._joined(shape, shadows, [call.args[0].shape, shape])]

    _baddbmm = _addmm

    def _attention(self, call: Call) -> list[Layers] | None:
        query, key, value = call.args[:3]
        mask = call.kwargs.get("attn_mask", call.kwargs.get("attn_bias"))
        if len(call.args) > 3 and isinstance(call.args[3], torch.Tensor):
            mask = call.args[3]
        heads = query.shape[:-2]
        shape = (*heads, query.shape[-2], key.shape[-2])

        def spread(tensor: torch.Tensor) -> Shadow:
            shadow = self.shadow(tensor)
            if tensor.shape[:-2] == heads:
                return shadow
            times = heads[-1] // tensor.shape[-3]
            layers = tuple(one.repeat_interleave(times, -3) for one in shadow.layers)
            return Shadow(tuple(map(compact, layers)), shadow.constant)

        swapped = spread(key)
        swapped = Shadow(tuple(one.transpose(-1, -2) for one in swapped.layers), swapped.constant)
        scores = Shadow(self._normal(self._contract(self.shadow(query), swapped, shape)), False)
        if mask is not None:
            both = self._joined(shape, [scores, self.shadow(mask)], [shape, mask.shape])
            scores = Shadow(self._normal(both), False)
        layers = self._contract(scores, spread(value), call.outs[0].shape)
        return [layers] + [()] * (len(call.outs) - 1)

    def _convolution(self, call: Call) -> list[Layers]:
        source, weight, bias = call.args[:3]
        is_transposed, groups = call.args[6], call.args[8]
        shape = call.outs[0].shape
        of_weight: dict[int, torch.Tensor] = {}
        for layer in self.shadow(weight).layers:
            if (dims := varying(layer)) in ([0], [1]):
                of_weight[dims[0]] = layer.movedim(dims[0], 0).flatten(1)[:, 0]
            else:
                self.classes.fix(layer)  # the kernel
        into, out_of = (0, 1) if is_transposed else (1, 0)
        if into in of_weight:
            self._note_read(of_weight[into])
        inputs = []
        passed = []
        for layer in self.shadow(source).layers:
            dims = [dim for dim in varying(layer) if dim != 1]
            if dims == varying(layer) and all(
                weight.shape[dim] == 1 and shape[dim] == source.shape[dim] for dim in dims
            ):
                passed.append(layer.select(1, 0).unsqueeze(1).expand(shape))
                continue
            for dim in dims:
                layer = self._keep_length(layer, dim)
            if varying(layer):
                inputs.append(layer.movedim(1, 0).flatten(1)[:, 0])
        outputs = [of_weight[out_of]] if out_of in of_weight else []
        stays = torch.zeros(1, dtype=torch.int64)
        if groups == 1:
            for labels in of_weight.values() if not inputs else ():
                if labels is of_weight.get(into):
                    self.classes.fix(labels)
            for labels in inputs:
                self.classes.join(labels, of_weight.get(into, stays))
        elif not is_transposed and weight.shape[1] > 1 and weight.shape[0] > groups:
            into_groups, out_of_groups = (
                (labels[0] if labels else stays.expand(count)).reshape(groups, -1)
                for labels, count in ((inputs, source.shape[1]), (outputs, shape[1]))
            )
            kernel = of_weight.get(1, stays)
            self.grouped.append(GroupedChannels(into_groups, out_of_groups, kernel))
        else:  # a group goes as a whole
            if 1 in of_weight:
                self.classes.fix(of_weight[1])
            sides = [*inputs, *([of_weight[0]] if 0 in of_weight else [])]
            of_groups = [one.reshape(groups, -1) for one in sides]
            for one in of_groups:
                self.classes.join(of_groups[0][:, :1], one)
            if not inputs and 0 in of_weight:
                self.classes.fix(of_weight[0])
            outputs = [
                one[:, :1].expand(groups, shape[1] // groups).reshape(-1) for one in of_groups
            ]
        view = (1, -1, *(1,) * (len(shape) - 2))
        made = Shadow((*passed, *(one.reshape(view).expand(shape) for one in outputs)), False)
        vector = Shadow() if bias is None else self.shadow(bias)
        shifts = Shadow(tuple(one.reshape(view) for one in vector.layers))
        return [self._joined(shape, [made, shifts], [shape, (1, shape[1], *view[2:])])]

    def _note_read(self, labels: torch.Tensor) -> None:
        if label := int(labels.max()):
            self.read.add(self.classes.owner(label))

    def _of_channels(self, source: torch.Tensor, vectors: Iterable[Any], dim: int) -> Layers:
        """Return the layers of a tensor that vectors scale and shift along a dimension."""
        shadows, shapes = [self.shadow(source)], [tuple(source.shape)]
        view = [-1 if d == dim else 1 for d in range(source.ndim)]
        for one in vectors:
            if isinstance(one, torch.Tensor):
                shadow = self.shadow(one)
                layers = tuple(each.reshape(view) for each in shadow.layers)
                shadows.append(Shadow(layers, True))
                shapes.append(tuple(source.shape[d] if d == dim else 1 for d in range(source.ndim)))
        return self._joined(source.shape, shadows, shapes)

    def _batch_norm(self, call: Call) -> list[Layers]:
        return [self._of_channels(call.args[0], call.args[1:5], 1)] + [()] * (len(call.outs) - 1)

    def _native_group_norm(self, call: Call) -> list[Layers]:
        source, weight, bias, _, channels, _, groups = call.args[:7]
        for layer in self.shadow(source).layers:
            if 1 not in varying(layer) or groups == 1:
                self.normalized.append(layer)
            elif groups < channels:
                grouped = divided(layer, 1, groups)
                self.classes.join(grouped.narrow(2, 0, 1), grouped)
        return [self._of_channels(source, (weight, bias), 1)] + [()] * (len(call.outs) - 1)

    def _native_layer_norm(self, call: Call) -> list[Layers]:
        source, over, *vectors = call.args[:4]
        first = source.ndim - len(over)
        self.normalized += [
            one for one in self.shadow(source).layers if any(dim >= first for dim in varying(one))
        ]
        tensors = [source, *(one for one in vectors if isinstance(one, torch.Tensor))]
        shapes = [one.shape for one in tensors]
        joined = self._joined(source.shape, map(self.shadow, tensors), shapes)
        return [joined] + [()] * (len(call.outs) - 1)

    _fused_rms_norm = _native_layer_norm

    def _embedding(self, call: Call) -> list[Layers]:
        layers = []
        for layer in self.shadow(call.args[0]).layers:
            if varying(layer) == [1]:
                layers.append(layer[0].expand(call.outs[0].shape))
                if label := int(layer.max()):
                    self.embedded.add(self.classes.owner(label))
            else:
                self.classes.fix(layer)  # which rows are read depends on the input
        return [tuple(layers)]

    def _gather(self, call: Call) -> list[Layers]:
        source = call.args[0]
        given = {"topk": 2, "_topk": 2}.get(call.name, 1)
        dim = (
            call.args[given] if len(call.args) > given else call.kwargs.get("dim", -1)
        ) % source.ndim
        [layers] = self._indexed(dim, [source], call.outs[0].shape)
        return [layers] * len(call.outs)

    _topk = _gather

    def _index_add(self, call: Call) -> list[Layers]:
        source, dim, _, added = call.args[:4]
        return self._indexed(dim % source.ndim, [source, added], source.shape)

    _index_copy = _scatter = _scatter_add = _scatter_reduce = _index_add

    def _indexed(
        self, dim: int, sources: Sequence[torch.Tensor], shape: Sequence[int]
    ) -> list[Layers]:
        """Return the layers of what has elements at computed places of a dimension, which stays."""
        shadows, shapes = [], []
        for one in sources:
            shadow = self.shadow(one)
            for layer in shadow.layers:
                if dim in varying(layer):
                    self.classes.fix(layer)
            across = (without(each, [dim]) for each in shadow.layers if dim not in varying(each))
            shadows.append(Shadow(tuple(across), shadow.constant))
            shapes.append([1 if d == dim else n for d, n in enumerate(one.shape)])
        narrow = [1 if d == dim else n for d, n in enumerate(shape)]
        joined = self._joined(narrow, shadows, shapes)
        return [tuple(one.expand(tuple(shape)) for one in joined)]

    def _weight_norm_interface(self, call: Call) -> list[Layers]:
        tensors = call.args[:2]
        shadows, shapes = map(self.shadow, tensors), [one.shape for one in tensors]
        return [self._joined(call.outs[0].shape, shadows, shapes), ()]


def _equal_parts(call: Call) -> tuple[int, int]:
    """Return the dimension that a split or a slice divides in equal parts, and their number."""
    source, [out, *others] = call.args[0], call.outs
    if call.name == "slice":
        dim = (call.args[1] if len(call.args) > 1 else 0) % source.ndim
        count, rest = divmod(source.shape[dim], max(1, out.shape[dim]))
        return dim, count if not rest and count <= MOST_SLICES else 1
    if call.name not in ("split", "unsafe_split") or any(one.shape != out.shape for one in others):
        return 0, 1
    return (call.args[2] if len(call.args) > 2 else 0) % source.ndim, len(call.outs)
