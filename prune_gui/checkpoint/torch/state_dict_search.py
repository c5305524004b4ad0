"""Finding and replacing the state dict inside the object that torch.load returns."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Final

import torch

State = Mapping[str, object]
Root = tuple[str, ...]

OPTIMIZER_KEYS: Final = frozenset({"state", "param_groups"})
MAX_DEPTH: Final = 16
"""The limit for the nesting of dictionaries that are searched."""
TOP_LEVEL_NAME: Final = "."
"""The name of the state dict at the top level of the file."""


def state_dicts(content: object) -> dict[Root, State]:
    """Return every dictionary with a tensor under a text key in nested dictionaries, by its path.

    The dictionaries may also contain other values. Optimizer states are not searched. Visits level
    by level, each dictionary once, so that depth and cycles are harmless.
    """
    states: dict[Root, State] = {}
    queue: list[tuple[Root, object]] = [((), content)]
    seen: set[int] = set()
    for root, value in queue:  # the loop appends to the queue
        if not isinstance(value, dict) or id(value) in seen or value.keys() >= OPTIMIZER_KEYS:
            continue
        seen.add(id(value))
        members = [(key, member) for key, member in value.items() if isinstance(key, str)]
        if any(isinstance(member, torch.Tensor) for _, member in members):
            states[root] = value
        if len(root) < MAX_DEPTH:
            queue.extend(
                ((*root, key), member) for key, member in members if isinstance(member, dict)
            )
    return states


def name_of(root: Root) -> str:
    """Return the name of a state dict for the user."""
    return ".".join(root) or TOP_LEVEL_NAME


def largest(states: Mapping[Root, State]) -> Root:
    """Return the path of the state dict with the most tensors; ties: most elements, then first."""

    def size(root: Root) -> tuple[int, int]:
        numels = [tensor.numel() for _, tensor in tensors_of(states[root])]
        return len(numels), sum(numels)

    return max(states, key=size)


def tensors_of(state: State) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the named tensors of a state dict in order."""
    for key, value in state.items():
        if isinstance(key, str) and isinstance(value, torch.Tensor):
            yield key, value


def with_state(content: object, root: Root, state: State) -> object:
    """Return a copy of `content` with `state` at `root`.

    Dictionaries outside of the path are shared. Those on the path keep their type and attributes,
    such as the `_metadata` that `Module.state_dict` sets on its OrderedDict.
    """
    path = [content]
    for key in root:
        path.append(_dictionary(path[-1])[key])
    replaced = _copy_with(path.pop(), state)
    for key, outer in zip(reversed(root), reversed(path), strict=True):
        replaced = _copy_with(outer, {**_dictionary(outer), key: replaced})
    return replaced


def _dictionary(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def _copy_with(model: object, members: Mapping[str, object]) -> dict[str, object]:
    """Return a dictionary with these members, and with the type and the attributes of `model`."""
    copied = _dictionary(copy.copy(model))
    copied.clear()
    for key, member in members.items():
        copied[key] = member
    if hasattr(model, "__dict__"):  # copy.copy does not copy the attributes of an OrderedDict
        vars(copied).update(vars(model))
    return copied
