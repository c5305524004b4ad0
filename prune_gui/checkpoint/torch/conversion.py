"""The refusal of files that name dangerous or unknown code, and lines that convert files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.torch.pickle_names import is_dangerous, is_refused
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import tr

MAX_NAME_CHARS: Final = 60


def code_error(path: Path, foreign: Sequence[str]) -> CheckpointError | None:
    """Return the refusal of a file that names dangerous or unknown code; None if it names none.

    Args:
        path: the path of the file.
        foreign: the names in the file.
    """
    refused = list(filter(is_refused, foreign))
    if not refused:
        return None
    dangerous = list(filter(is_dangerous, refused))
    problem = tr(
        "{name} needs the code of {code} to open, and code from a file is never run.",
        name=path.name,
        code=_first_name(list(dict.fromkeys((*dangerous, *refused, *foreign)))),
    )
    if not dangerous:
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
            "{problem} That can run programs, change files or use the network, so the file "
            "looks like an attack: do not load it with torch or pickle. Get the weights from "
            "another source.",
            problem=problem,
        )
    )


def plain_pickle_error(path: Path) -> CheckpointError:
    """Return the refusal of a Python pickle without the format of torch around it."""
    return CheckpointError(
        tr(
            "{name} is a Python pickle that torch.save did not write. If you trust the author of "
            "the file, load it in the environment it came from, and save the state dict with "
            "torch.save.",
            name=path.name,
        )
    )


def _first_name(names: Sequence[str]) -> str:
    """Return the first name and the number of the others."""
    first, more = one_line(names[0], 100), len(names) - 1
    return tr("{first} (and {more:,} more)", first=first, more=more) if more else first


def conversion_lines(path: Path) -> tuple[str, str, str]:
    """Return the lines of Python that load a TorchScript program and save its weights."""
    name = one_line(path.name)
    quoted = f'"{name}"' if name == path.name and '"' not in name and "\\" not in name else "path"
    if len(name) > MAX_NAME_CHARS:
        quoted = "path"
    load = f"torch.jit.load({quoted})"
    return "import torch", f"model = {load}", 'torch.save(model.state_dict(), "weights.pt")'
