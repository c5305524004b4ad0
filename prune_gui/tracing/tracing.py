"""Tracing a network: from its code and an example input to the table of its architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import torch

from prune_gui.architecture.tables import ArchitectureTable, GroupRule, SliceRule, SpaceRule
from prune_gui.errors import RecipeError
from prune_gui.language import deferred, listed, tr
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.tracing.checking import EXACT, Checker, Run
from prune_gui.tracing.labelled_tensors import tensors_in
from prune_gui.tracing.operators import ChannelTrace
from prune_gui.tracing.traced_units import units_of

TITLES: Final = {
    "channels": deferred("channels"),
    "heads": deferred("attention heads"),
    "hidden": deferred("hidden channels"),
}
META: Final = "meta"


def trace(model: torch.nn.Module, inputs: object, *, family: str = "traced") -> ArchitectureTable:
    """Return the table of the units of a network, which runs on an example input.

    Args:
        model: the network, with any values; its parameters may be on the device meta.
        inputs: a tensor, or a sequence of positional or a mapping of keyword arguments.
        family: a name for the table.

    Raises:
        RecipeError: the network does not run, or no units were found in it.
    """
    is_meta = any(tensor.is_meta for tensor in model.state_dict(keep_vars=True).values())
    if is_meta:
        inputs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda one: one.to(META), inputs)
    run = partial(_run, inputs=inputs)
    mode = model.training
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it has operators of whole layers
    model.eval()
    try:
        groups, unknown = _traced(model, inputs, run)
        spaces: dict[str, SpaceRule] = {}
        if is_meta:
            unknown.append(tr("The network is on meta, so its units were not tried."))
            spaces = {
                name: _space(
                    name, [one for one in groups if one.space == name], exact=name != "hidden"
                )
                for name in dict.fromkeys(one.space for one in groups)
            }
        else:
            spaces = _tried(Checker(model, run), groups, unknown)
    finally:
        model.train(mode)
        torch.backends.mha.set_fastpath_enabled(fast)
    if not spaces:
        raise RecipeError(
            "No units were found in the network that can be removed. {unknown}",
            unknown=" ".join(unknown),
        )
    return ArchitectureTable(family=family, spaces=spaces, unknown=tuple(unknown))


def tied_names(model: torch.nn.Module) -> dict[str, list[str]]:
    """Return all names of each tensor of a network that has several, by the first one."""
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return {several[0]: several for several in names.values() if len(several) > 1}


def _run(model: torch.nn.Module, inputs: object) -> object:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(inputs) if isinstance(inputs, torch.Tensor) else model(*inputs)  # type: ignore[misc]


def _traced(
    model: torch.nn.Module, inputs: object, run: Run
) -> tuple[list[CoupledGroup], list[str]]:
    channels, shapes = ChannelTrace(), {}
    saved = model.state_dict(keep_vars=True)
    seen: set[int] = set()
    for name, tensor in saved.items():
        if tensor.is_floating_point() and id(tensor) not in seen:
            seen.add(id(tensor))
            channels.parameter(name, tensor)
            shapes[name] = tuple(tensor.shape)
    for tensor in tensors_in(inputs):
        channels.input(tensor)
    one_dnn = torch.backends.mkldnn.enabled
    is_recurrent = any(isinstance(one, torch.nn.RNNBase) for one in model.modules())
    if is_recurrent:  # without oneDNN, these are matrix products and gates, which have rules
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        with torch.no_grad(), channels:
            result = run(model)
    except Exception as error:
        raise RecipeError(
            "The network does not run on the example input: {reason}",
            reason=f"{type(error).__name__}: {error}",
        ) from error
    finally:
        torch.backends.mkldnn.enabled = one_dnn
    for tensor in tensors_in(result):
        channels.output(tensor)
    unknown = []
    if channels.unknown:
        unknown.append(
            tr(
                "Operators that are not understood, and keep the channels that they see: {names}.",
                names=", ".join(sorted(channels.unknown)),
            )
        )
    if unused := [name for name in shapes if name not in channels.used]:
        unknown.append(
            tr("Tensors that the example input does not reach: {names}.", names=listed(unused))
        )
    return units_of(channels, shapes), unknown


def _tried(
    checker: Checker, groups: Sequence[CoupledGroup], unknown: list[str]
) -> dict[str, SpaceRule]:
    """Return the spaces of which units can be removed, each group of them tried."""
    by_space = {name: [one for one in groups if one.space == name] for name in TITLES}
    settled = {name: checker.settle(found) for name, found in by_space.items()}
    with_other: dict[str, tuple[str, ...]] = {}
    heads, hidden = by_space["heads"], by_space["hidden"]
    if heads and hidden and any(len(settled[s]) < len(by_space[s]) for s in ("heads", "hidden")):
        both = checker.settle_together([*heads, *hidden]) or [
            one
            for group in hidden  # a stage whose heads are few may not run with half of them
            for one in checker.settle_together([*_sharing(heads, group), group])
        ]
        if both:
            for space, other in (("heads", "hidden"), ("hidden", "heads")):
                if len(settled[space]) < len(by_space[space]):
                    with_other[space] = (other,)
                settled[space] = [one for one in both if one.space == space]
    spaces = {}
    for name, found in settled.items():
        kept = {one.label for one in found}
        left = [one.label for one in by_space[name] if one.label not in kept]
        if left:
            unknown.append(
                tr(
                    "The network does not run without some of the {title} of {names}.",
                    title=tr(TITLES[name]),
                    names=listed(left),
                )
            )
        if found:
            difference = None if name in with_other else checker.difference(found)
            is_exact = difference is not None and difference < EXACT
            rule = _space(name, found, exact=is_exact)
            spaces[name] = rule.model_copy(update={"loadable_with": with_other.get(name, ())})
    return {
        name: rule.model_copy(
            update={"loadable_with": tuple(one for one in rule.loadable_with if one in spaces)}
        )
        for name, rule in spaces.items()
    }


def _sharing(groups: Sequence[CoupledGroup], other: CoupledGroup) -> list[CoupledGroup]:
    """Return the groups that share a tensor with another one."""
    names = {member.name for member in other.members}
    return [one for one in groups if any(member.name in names for member in one.members)]


def _space(name: str, groups: Sequence[CoupledGroup], *, exact: bool) -> SpaceRule:
    rules = tuple(
        GroupRule(
            label=group.label,
            size=group.size,
            attributes=group.attributes,
            members=tuple(
                SliceRule(
                    name=one.name, dim=one.dim or 0, role=one.role, offset=one.offset,
                    width=one.width, starts=one.starts,
                )
                for one in group.members
            ),
        )
        for group in groups
    )  # fmt: skip
    return SpaceRule(title=TITLES[name], groups=rules, exact=exact)
