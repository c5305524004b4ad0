"""Finding the state dict inside what torch.load returns, and putting another one in its place."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Final

import torch

State = Mapping[str, object]
Root = tuple[str, ...]

OPTIMIZER_KEYS: Final = frozenset({"state", "param_groups"})
DEEPEST: Final = 16
"""Dictionaries in dictionaries that are looked into."""
TOP: Final = "."
"""The name of the state dict that is the whole file."""


def state_dicts(nest: object) -> dict[Root, State]:
    """Return every mapping from names to tensors in a nest of dictionaries, by its path.

    Other values may lie among the tensors. The inside of an optimizer's state is left out. Walks
    level by level, and each dictionary once, so that neither depth nor cycles matter.
    """
    found: dict[Root, State] = {}
    waiting: list[tuple[Root, object]] = [((), nest)]
    seen: set[int] = set()
    for root, value in waiting:  # grows while it is walked
        if not isinstance(value, dict) or id(value) in seen or value.keys() >= OPTIMIZER_KEYS:
            continue
        seen.add(id(value))
        members = [(key, member) for key, member in value.items() if isinstance(key, str)]
        if any(isinstance(member, torch.Tensor) for _, member in members):
            found[root] = value
        if len(root) < DEEPEST:
            waiting.extend(
                ((*root, key), member) for key, member in members if isinstance(member, dict)
            )
    return found


def name_of(root: Root) -> str:
    """Return what a person calls a state dict by."""
    return ".".join(root) or TOP


def largest(found: Mapping[Root, State]) -> Root:
    """Return the path of the state dict with most tensors; of equals, the one nearest the top."""

    def size(root: Root) -> tuple[int, int]:
        shapes = [tensor.numel() for _, tensor in tensors_of(found[root])]
        return len(shapes), sum(shapes)

    return max(found, key=size)


def tensors_of(state: State) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the named tensors of a state dict in order."""
    for key, value in state.items():
        if isinstance(key, str) and isinstance(value, torch.Tensor):
            yield key, value


def with_state(nest: object, root: Root, state: State) -> object:
    """Return a nest like `nest` with `state` at `root`.

    Dictionaries beside the path are shared. Those on it keep their type and attributes, such as the
    `_metadata` that `Module.state_dict` leaves on its OrderedDict.
    """
    path = [nest]
    for key in root:
        path.append(_dictionary(path[-1])[key])
    replaced = _like(path.pop(), state)
    for key, outer in zip(reversed(root), reversed(path), strict=True):
        replaced = _like(outer, {**_dictionary(outer), key: replaced})
    return replaced


def _dictionary(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _like(model: object, members: Mapping[str, object]) -> dict[str, object]:
    """Return a dictionary of these members with the type and the attributes of `model`."""
    made = _dictionary(copy.copy(model))
    made.clear()
    for key, member in members.items():
        made[key] = member
    if hasattr(model, "__dict__"):  # an OrderedDict does not copy its attributes
        vars(made).update(vars(model))
    return made
