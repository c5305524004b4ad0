"""Runs the code of the user that builds a network, and traces it, in a process of its own."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from prune_gui.errors import PruneGuiError
from prune_gui.evaluation.function_worker import FunctionFault, described, load
from prune_gui.tracing.tracing import tied_names, trace


def _traced(path: str, function: str) -> dict[str, Any]:
    source = Path(path).read_bytes().decode("latin-1")
    built: Any = load({"path": path, "function": function, "source": source})()
    is_pair = isinstance(built, tuple) and len(built) == 2
    if not is_pair or not isinstance(built[0], torch.nn.Module):
        raise FunctionFault("no_network")
    model, inputs = built
    table = trace(model, inputs, family=f"{Path(path).name}:{function}")
    shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    tied = tied_names(model)
    return {"table": table.model_dump(mode="json"), "shapes": shapes, "tied": tied}


def main() -> None:
    """Trace what a function in a file returns; the last three arguments name both, and the output.

    The output is a JSON object with the table and the shapes of the tensors, or with an error.
    """
    path, function, out = sys.argv[-3:]
    try:
        answer = _traced(path, function)
    except FunctionFault as fault:
        answer = {"fault": fault.args}
    except PruneGuiError as error:
        answer = {"error": str(error)}
    except BaseException as error:  # noqa: BLE001 - raised by the code of the user
        traceback.print_exc()
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        answer = {"error": described(error), "line": (lines or [None])[-1]}
    Path(out).write_text(json.dumps(answer), encoding="utf-8")
