"""Traces the network that a file of the user builds, in a process of its own."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Final

from prune_gui.architecture.tables import ArchitectureTable
from prune_gui.checkpoint import Checkpoint
from prune_gui.errors import RecipeError, one_line
from prune_gui.isolated.processes import isolated_command
from prune_gui.isolated.watching import ProcessTree, end_message, last_line, log_lines
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.tracing.naming import named_as_in

MAX_TOLD: Final = 500
FAULTS: Final = {
    "no_function": deferred("{file} has no function {function}. It has: {names}."),
    "no_network": deferred(
        "{function} of {file} must return a torch.nn.Module and an example input: a tensor, a "
        "tuple of arguments, or a dictionary of named ones."
    ),
}
"""By the code that the process sends."""


def trace_file(builder: str, checkpoint: Checkpoint, monitor: Monitor) -> ArchitectureTable:
    """Return the table of a network in the names of a checkpoint of it.

    Args:
        builder: ``FILE.py:FUNCTION``. It runs with all rights of the user, in the working folder,
            and returns a model and an example input; see `trace`.
        checkpoint: a checkpoint of the network, of which only names and shapes are read.
        monitor: may cancel.

    Raises:
        RecipeError: the code fails, or no units were found.
    """
    file, _, function = builder.rpartition(":")
    path = Path(file).absolute()
    if not function.isidentifier() or path.suffix != ".py":
        raise RecipeError(
            "{text}: name a file and a function that returns a model and an example input, such as "
            "my.py:build.",
            text=builder,
        )
    if not path.is_file():
        raise RecipeError("{path}: the file does not exist.", path=path)
    with tempfile.TemporaryDirectory(prefix="prune-gui-") as folder:
        out = Path(folder) / "table.json"
        arguments = (str(path), function, str(out))
        tree = ProcessTree(
            isolated_command("prune_gui.tracing.worker", *arguments), remove=Path(folder)
        )
        try:
            while not tree.wait():
                monitor.advance()
            tree.read_rest()
            output = tree.output.take() + tree.errors.take()
        finally:
            tree.end()
        log_lines(builder, output)
        if tree.exit_code or not out.is_file():
            raise RecipeError(
                "{cause} ({place}: {how})",
                cause=last_line(output),
                place=builder,
                how=end_message(tree.exit_code or 0),
            )
        answer = json.loads(out.read_text(encoding="utf-8"))
    if "fault" in answer:
        code, *fields = answer["fault"]
        names = fields[0].get("names", "") if fields else ""
        raise RecipeError(FAULTS[code], file=path.name, function=function, names=names)
    if "error" in answer:
        place = path.name
        if answer.get("line"):
            place = tr("{file}, line {line}", file=place, line=answer["line"])
        told = one_line(answer["error"], MAX_TOLD)
        raise RecipeError("{told} ({place})", told=told, place=place)
    table = ArchitectureTable.model_validate(answer["table"])
    return named_as_in(checkpoint, table, answer["shapes"], answer["tied"])
