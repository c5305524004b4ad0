"""The refusal of files that need code to open, with lines of Python that convert them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import torch

from prune_gui.checkpoint.torch.pickle_machine import OPAQUE, ForeignObject
from prune_gui.checkpoint.torch.pickle_names import is_dangerous, is_harmless
from prune_gui.checkpoint.torch.unpickling import TensorPlaceholder, Unpickled
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import deferred, tr

MAX_NAME_CHARS: Final = 60
MAX_EXPRESSION_CHARS: Final = 150
MAX_KEY_CHARS: Final = 40
MAX_DICTIONARIES: Final = 10_000
MAX_DEPTH: Final = 8
"""The dictionaries of a file that are searched, and how deep."""
TENSOR_TYPES: Final = (TensorPlaceholder, torch.Tensor)
"""Tensors in the unpickled value. Those before the first foreign name are built, others are not."""
PROBLEMS: Final = {
    (True, False): deferred(
        "{name} needs the code of {code} to open, and code from a file is never run."
    ),
    (True, True): deferred(
        "{name} is a Python pickle that torch.save did not write; it needs the code of {code} to "
        "open, and code from a file is never run."
    ),
    (False, False): deferred(
        "{name} is a pickle of protocol {protocol}, which is not safe to read."
    ),
    (False, True): deferred(
        "{name} is a Python pickle that torch.save did not write; it is a pickle of protocol "
        "{protocol}, which is not safe to read."
    ),
}
"""Why a file is not opened, by (whether it names code, whether it is a plain pickle)."""

State = tuple[tuple[str, ...], Mapping[object, object]]


def code_needed_error(path: Path, opened: Unpickled, *, plain: bool = False) -> CheckpointError:
    """Return the refusal of a file that names code that torch.save does not write.

    Args:
        path: the path of the file.
        opened: the unpickled content.
        plain: whether the file is a plain Python pickle, without the format of torch around it.
    """
    dangerous = [name for name in opened.foreign if is_dangerous(name)]
    problem = _problem_sentence(
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
    weights = _weights_expression("model", opened.value)
    if weights is None:
        return CheckpointError(
            tr(
                "{problem} It is not a checkpoint, so it may contain nothing to prune. Open the "
                "file with the weights.",
                problem=problem,
            )
        )
    is_complete = opened.value is not OPAQUE  # the pickle was read to its end
    if plain or not is_complete or not all(map(is_harmless, opened.foreign)):
        return CheckpointError(
            tr(
                "{problem} The effect of that code is unknown. If you trust the author of the "
                "file, load it in the environment it came from, and save only the state dict with "
                "torch.save.",
                problem=problem,
            )
        )
    return CheckpointError(
        tr(
            "{problem} If you trust the file, run this in the environment it came from:",
            problem=problem,
        ),
        conversion_lines(path, "torch", weights),
    )


def _problem_sentence(name: str, opened: Unpickled, foreign: Sequence[str], *, plain: bool) -> str:
    """Return why a file is not opened, as a sentence with the first foreign name."""
    message = PROBLEMS[bool(foreign), plain]
    return tr(message, name=name, code=_first_name(foreign), protocol=opened.protocol)


def _first_name(foreign: Sequence[str]) -> str:
    """Return the first name and the number of the others; "" if there are none."""
    if not foreign:
        return ""
    # The name of an extension is a message to translate.
    first, more = one_line(tr(foreign[0]), 100), len(foreign) - 1
    return tr("{first} (and {more:,} more)", first=first, more=more) if more else first


def conversion_lines(
    path: Path, loader: str, weights: str = "model.state_dict()"
) -> tuple[str, str, str]:
    """Return the lines of Python that load a file and save its weights in a file that opens."""
    name = one_line(path.name)
    quoted = f'"{name}"' if name == path.name and '"' not in name and "\\" not in name else "path"
    if len(name) > MAX_NAME_CHARS:
        quoted = "path"
    load = {
        "torch": f"torch.load({quoted}, weights_only=False)",
        "torch.jit": f"torch.jit.load({quoted})",
    }[loader]
    if len(weights) > MAX_EXPRESSION_CHARS:
        weights = "model[...]"
    return "import torch", f"model = {load}", f'torch.save({weights}, "weights.pt")'


def _weights_expression(name: str, root: object) -> str | None:
    """Return a Python expression for the weights in an unpickled value; None if it has none."""
    if isinstance(root, TENSOR_TYPES):
        return f'{{"weight": {name}}}'
    if isinstance(root, ForeignObject) and not root.items:
        known = isinstance(root.state, dict)
        return None if known and not _is_module(root) else f"{name}.state_dict()"
    states = list(_dictionaries(root))
    if not states:
        return f"{name}.state_dict()"
    path, state = max(states, key=lambda item: _tensor_count(item[1]))
    if _tensor_count(state) == 0:
        modules = (
            (*path, key)
            for path, state in states
            for key, value in state.items()
            if isinstance(key, str) and isinstance(value, ForeignObject) and _is_module(value)
        )
        module = next(modules, None)
        return f"{name}{_subscripts(module)}.state_dict()" if module else None
    expression = f"{name}{_subscripts(path)}"
    if all(isinstance(value, TENSOR_TYPES) for value in state.values()):
        return expression
    return f"{{key: value for key, value in {expression}.items() if torch.is_tensor(value)}}"


def _subscripts(path: tuple[str, ...]) -> str:
    """Return the subscripts that lead to a value; "[...]" for keys that are not printable."""
    return "".join(
        f"[{json.dumps(key, ensure_ascii=False)}]"
        if one_line(key, MAX_KEY_CHARS) == key
        else "[...]"
        for key in path
    )


def _dictionaries(root: object) -> Iterator[State]:
    """Yield the nested dictionaries with their paths of text keys, level by level."""
    queue: list[tuple[tuple[str, ...], object]] = [((), root)]
    seen: set[int] = set()
    for path, value in queue:  # the loop appends to the queue
        state = value.items if isinstance(value, ForeignObject) else value
        if not isinstance(state, dict) or id(state) in seen:
            continue
        if len(seen) >= MAX_DICTIONARIES or len(path) > MAX_DEPTH:
            return
        seen.add(id(state))
        yield path, state
        inner = (
            (key, member)
            for key, member in state.items()
            if isinstance(key, str) and isinstance(member, dict | ForeignObject)
        )
        queue.extend(((*path, key), member) for key, member in inner)


def _tensor_count(state: Mapping[object, object]) -> int:
    return sum(isinstance(value, TENSOR_TYPES) for value in state.values())


def _is_module(made: ForeignObject) -> bool:
    return isinstance(made.state, dict) and "_modules" in made.state
