"""The units of a network that was traced: classes of channels that can go, in groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.pruning.layouts import CoupledGroup, Member, MemberRole
from prune_gui.tracing.labelled_tensors import GroupedChannels
from prune_gui.tracing.labels import FIXED, LabelClasses, compact, varying
from prune_gui.tracing.operators import ChannelTrace

Places = NDArray[np.int64]  # (units, channels of a unit)
STATISTICS: Final = ("running_mean", "running_var")


def make_even(classes: LabelClasses, uneven: Sequence[torch.Tensor]) -> None:
    """Join labels so that units are whole slices along one dimension of each tensor.

    Where units differ along several dimensions, such as heads and their channels, the dimension
    with the most units stays divided.
    """
    seen = set()
    for layer in uneven:
        narrow = layer
        for dim in range(layer.ndim):
            if not layer.stride(dim):
                narrow = narrow.narrow(dim, 0, 1)
        key = (narrow.shape, narrow.numpy().tobytes())
        if key in seen:
            continue
        seen.add(key)
        now = compact(torch.from_numpy(classes.roots()[narrow.numpy()]))
        dims = varying(now)
        if len(dims) < 2:
            continue
        kept = max(
            dims, key=lambda dim: len(np.unique(now.movedim(dim, 0).flatten(1)[:, 0].numpy()))
        )
        rows = now.movedim(kept, 0).flatten(1)
        classes.join(rows[:, :1], rows)


def balance(classes: LabelClasses, parts: torch.Tensor) -> None:
    """Join labels (parts, channels of a part) so that the parts keep equally many channels.

    Channels at the same place of all parts go together, if that does not join more than need be:
    shuffled channels may have other places than those that they go with. Otherwise classes within
    one part are joined with as large ones of each other part, and what is left stays.
    """
    rows = classes.roots()[parts.numpy()]
    found, index = np.unique(rows, return_inverse=True)
    index = index.reshape(rows.shape)
    counts = np.stack([np.bincount(one, minlength=len(found)) for one in index])
    by_place = LabelClasses()
    local = by_place.add("", 0, len(found))[torch.from_numpy(index)]
    by_place.join(local[:1], local)
    is_even = (counts == counts[0]).all(0)
    is_within_one = np.count_nonzero(counts, axis=0) == 1
    bundles = []
    for size in np.unique(counts[:, is_within_one & (found != FIXED)].max(0, initial=0)):
        several = [found[is_within_one & (one == size) & (found != FIXED)] for one in counts]
        bundles.append(np.stack([one[: min(map(len, several))] for one in several]))
    joined = np.concatenate(bundles, 1) if bundles else np.zeros((len(rows), 0), np.int64)
    if len(np.unique(by_place.roots()[1:])) >= joined.shape[1] + np.count_nonzero(is_even):
        classes.join(parts[:1], parts)
    else:
        kept = ~is_even & ~np.isin(found, joined)
        classes.join(torch.from_numpy(joined[:1]), torch.from_numpy(joined))
        classes.fix(torch.from_numpy(found[kept]))


def divide_groups(classes: LabelClasses, convolutions: Sequence[GroupedChannels]) -> dict[str, str]:
    """Join labels so that the groups of each convolution keep equally many channels.

    The channels at the same place of all groups go together. Whole groups go where no channel goes
    without the others of its group, such as before a group norm.

    Returns:
        The path of the number of groups of each convolution whose groups go whole, by its weight.
    """
    whole = {}
    for inputs, outputs, kernel in convolutions:
        roots = classes.roots()
        differ = [
            varying(compact(torch.from_numpy(roots[side.numpy()]))) for side in (inputs, outputs)
        ]
        if all(1 in dims for dims in differ) or not all(0 in dims for dims in differ):
            for side in (inputs, outputs):
                classes.join(side[:1], side)
            classes.join(inputs[0], kernel)
        else:
            for side in (inputs, outputs):
                classes.join(inputs[:, :1], side)
            classes.fix(kernel)
            name, _ = classes.owner(int(outputs.max()))
            whole[name] = f"{name.rpartition('.')[0]}.groups"
    return whole


def units_of(trace: ChannelTrace, shapes: Mapping[str, tuple[int, ...]]) -> list[CoupledGroup]:
    """Return the groups of units of the parameters with these shapes.

    Units whose channels attention multiplies with each other are heads; units over which a norm or
    a mean is computed are hidden channels.
    """
    classes = trace.classes
    whole = divide_groups(classes, trace.grouped)
    make_even(classes, trace.uneven)
    for parts in trace.parts:
        balance(classes, parts)
    roots = classes.roots()
    attended = _classes_in(roots, trace.attended)
    normalized = _classes_in(roots, trace.normalized)
    readers = {name for name, _ in trace.read}
    places: dict[int, dict[tuple[str, int], Places]] = defaultdict(dict)
    for name, dim, own in classes.dimensions():
        order = np.argsort(own, kind="stable")
        found, starts = np.unique(own[order], return_index=True)
        for unit, channels in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            if unit != FIXED:
                places[unit][name, dim] = channels
    alike: dict[object, list[int]] = defaultdict(list)
    for unit, of_unit in places.items():
        key = frozenset((owner, len(channels)) for owner, channels in of_unit.items())
        alike[key].append(unit)
    groups, labels = [], Counter[tuple[str, str]]()
    for units in alike.values():
        owners = list(places[units[0]])
        if len(units) < 2 or len(owners) < 2 or not all(name in trace.used for name, _ in owners):
            continue
        units.sort(key=lambda unit: int(places[unit][owners[0]][0]))
        members = [
            member
            for name, dim in owners
            for member in members_of(
                name, dim, _role(name, dim, shapes[name], trace.read - trace.embedded),
                np.stack([places[unit][name, dim] for unit in units]),
            )
        ]  # fmt: skip
        made = [member.name for member in members if member.role == "produces"]
        if not made:
            continue
        space = "channels"
        if not attended.isdisjoint(units):
            space = "heads"
        elif not normalized.isdisjoint(units):
            space = "hidden"
        of_layers = [name for name in made if name in readers]
        path = (of_layers or made)[0].removesuffix(".weight")
        labels[path, space] += 1
        label = path if labels[path, space] == 1 else f"{path}.part{labels[path, space]}"
        attributes = tuple(whole[name] for name, dim in owners if name in whole and dim == 0)
        groups.append(CoupledGroup(space, label, len(units), tuple(members), attributes))
    return groups


def members_of(name: str, dim: int, role: MemberRole, places: Places) -> Iterator[Member]:
    """Yield the slices of a tensor that belong to units: runs of neighbours, if all have such."""
    steps = np.diff(places, axis=1) != 1
    cuts = np.flatnonzero(steps[0]) + 1 if (steps == steps[:1]).all() else range(1, places.shape[1])
    for run in np.split(places, cuts, axis=1):
        starts, width = run[:, 0], run.shape[1]
        if (starts == starts[0] + width * np.arange(len(starts))).all():
            yield Member(name, dim, int(starts[0]), width, role)
        else:
            yield Member(name, dim, 0, width, role, starts=tuple(starts.tolist()))


def _role(
    name: str, dim: int, shape: Sequence[int], read: Collection[tuple[str, int]]
) -> MemberRole:
    if (name, dim) in read:
        return "consumes"
    if len(shape) > 1:
        return "produces"
    return "bias" if "bias" in name.rpartition(".")[2] else "norm"


def _classes_in(roots: NDArray[np.int64], layers: Sequence[torch.Tensor]) -> set[int]:
    found: set[int] = set()
    for layer in layers:
        for dim in range(layer.ndim):
            if not layer.stride(dim):
                layer = layer.narrow(dim, 0, 1)
        found.update(np.unique(roots[layer.numpy()]).tolist())
    return found - {FIXED}
