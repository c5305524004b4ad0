"""Refusing what needs code to open, with the lines of Python that convert it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import torch

from prune_gui.checkpoint.torch.pickle_machine import OPAQUE, Made
from prune_gui.checkpoint.torch.pickle_names import is_dangerous, is_harmless
from prune_gui.checkpoint.torch.unpickling import Tensor, Unpickled
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import later, tr

LONGEST_NAME: Final = 60
LONGEST_EXPRESSION: Final = 150
LONGEST_KEY: Final = 40
LOOKED_AT: Final = 10_000
"""Dictionaries in a file."""
DEEPEST: Final = 8
TENSORS: Final = (Tensor, torch.Tensor)
"""What stands for a tensor: what was built before the name of foreign code came up is there."""
PROBLEMS: Final = {
    (True, False): later(
        "{name} needs the code of {code} to open, and code from a file is never run."
    ),
    (True, True): later(
        "{name} is a Python pickle that torch.save did not write; it needs the code of {code} to "
        "open, and code from a file is never run."
    ),
    (False, False): later("{name} is a pickle of protocol {protocol}, which is not safe to read."),
    (False, True): later(
        "{name} is a Python pickle that torch.save did not write; it is a pickle of protocol "
        "{protocol}, which is not safe to read."
    ),
}
"""Why a file is not opened, by whether it names code and whether it is a plain pickle."""

State = tuple[tuple[str, ...], Mapping[object, object]]


def needs_code(path: Path, opened: Unpickled, *, plain: bool = False) -> CheckpointError:
    """Return the refusal of a file that names what torch.save does not write.

    Args:
        path: of the file.
        opened: its pickle.
        plain: whether it is one of Python's own pickles, without anything of torch around it.
    """
    dangerous = [name for name in opened.foreign if is_dangerous(name)]
    problem = _problem(
        path.name, opened, list(dict.fromkeys((*dangerous, *opened.foreign))), plain=plain
    )
    if dangerous:
        return CheckpointError(
            tr(
                "{problem} That can run programs, change files or use the network, so the file "
                "looks like an attack: do not load it with torch or pickle. Get the weights from "
                "another source.",
                problem=problem,
            )
        )
    weights = _weights("model", opened.root)
    if weights is None:
        return CheckpointError(
            tr(
                "{problem} It is no checkpoint, so there may be nothing to prune in it. "
                "Open the file with the weights.",
                problem=problem,
            )
        )
    followed = opened.root is not OPAQUE  # to its end
    if plain or not followed or not all(map(is_harmless, opened.foreign)):
        return CheckpointError(
            tr(
                "{problem} What that would do is not known. If you trust whoever made the file, "
                "load it where it came from, and save only the state dict with torch.save.",
                problem=problem,
            )
        )
    return CheckpointError(
        tr("{problem} If you trust it, run this where it came from:", problem=problem),
        lines_of(path, "torch", weights),
    )


def _problem(name: str, opened: Unpickled, foreign: Sequence[str], *, plain: bool) -> str:
    """Return why a file is not opened, as a sentence that begins with the first foreign name."""
    message = PROBLEMS[bool(foreign), plain]
    return tr(message, name=name, code=_named(foreign), protocol=opened.protocol)


def _named(foreign: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are; "" of none."""
    if not foreign:
        return ""
    first, more = one_line(tr(foreign[0]), 100), len(foreign) - 1  # an extension is told in words
    return tr("{first} (and {more:,} more)", first=first, more=more) if more else first


def lines_of(path: Path, loader: str, weights: str = "model.state_dict()") -> tuple[str, str, str]:
    """Return the Python that loads a file and saves its weights in one that opens."""
    name = one_line(path.name)
    quoted = f'"{name}"' if name == path.name and '"' not in name and "\\" not in name else "path"
    if len(name) > LONGEST_NAME:
        quoted = "path"
    load = {
        "torch": f"torch.load({quoted}, weights_only=False)",
        "torch.jit": f"torch.jit.load({quoted})",
    }[loader]
    if len(weights) > LONGEST_EXPRESSION:
        weights = "model[...]"
    return "import torch", f"model = {load}", f'torch.save({weights}, "weights.pt")'


def _weights(name: str, root: object) -> str | None:
    """Return the expression for the weights in what a pickle holds; None if it has none."""
    if isinstance(root, TENSORS):
        return f'{{"weight": {name}}}'
    if isinstance(root, Made) and not root.items:
        known = isinstance(root.state, dict)
        return None if known and not _is_module(root) else f"{name}.state_dict()"
    states = list(_dictionaries(root))
    if not states:
        return f"{name}.state_dict()"
    path, state = max(states, key=lambda found: _tensors(found[1]))
    if _tensors(state) == 0:
        modules = (
            (*path, key)
            for path, state in states
            for key, value in state.items()
            if isinstance(key, str) and isinstance(value, Made) and _is_module(value)
        )
        module = next(modules, None)
        return f"{name}{_indices(module)}.state_dict()" if module else None
    place = f"{name}{_indices(path)}"
    if all(isinstance(value, TENSORS) for value in state.values()):
        return place
    return f"{{key: value for key, value in {place}.items() if torch.is_tensor(value)}}"


def _indices(path: tuple[str, ...]) -> str:
    """Return the subscripts that lead to a value; "[...]" for keys that cannot be shown as is."""
    return "".join(
        f"[{json.dumps(key, ensure_ascii=False)}]" if one_line(key, LONGEST_KEY) == key else "[...]"
        for key in path
    )


def _dictionaries(root: object) -> Iterator[State]:
    """Yield the dictionaries with text for keys, level by level."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), root)]
    seen: set[int] = set()
    for path, value in waiting:  # grows while it is walked
        state = value.items if isinstance(value, Made) else value
        if not isinstance(state, dict) or id(state) in seen:
            continue
        if len(seen) >= LOOKED_AT or len(path) > DEEPEST:
            return
        seen.add(id(state))
        yield path, state
        inner = (
            (key, member)
            for key, member in state.items()
            if isinstance(key, str) and isinstance(member, dict | Made)
        )
        waiting.extend(((*path, key), member) for key, member in inner)


def _tensors(state: Mapping[object, object]) -> int:
    return sum(isinstance(value, TENSORS) for value in state.values())


def _is_module(made: Made) -> bool:
    return isinstance(made.state, dict) and "_modules" in made.state
