"""Running a command as an evaluator: one process for each checkpoint."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prune_gui.errors import EvaluationError
from prune_gui.evaluation.metrics import metrics_in, metrics_of
from prune_gui.evaluation.spec import CHECKPOINT, FOLDER, OUTPUT, SPLIT, EvaluatorSpec
from prune_gui.isolated.watching import (
    Limits,
    ProcessTree,
    ShowStatus,
    end_message,
    last_line,
    log_lines,
)
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.regular_files import read_regular

if TYPE_CHECKING:
    from prune_gui.recipe.resolution import Resolution

MAX_RESULT_BYTES: Final = 1 << 24


def run_command(
    spec: EvaluatorSpec,
    resolution: Resolution,
    split: str,
    limits: Limits,
    monitor: Monitor,
    show: ShowStatus | None,
) -> tuple[dict[str, float], int]:
    """Run a command on a pruned checkpoint; return its metrics and its peak memory in bytes."""
    from prune_gui.evaluation.handover import handover_folder, write_checkpoint_in  # torch: slow

    with handover_folder(resolution) as folder:
        path = write_checkpoint_in(folder, resolution, monitor)
        output = folder / "output"
        values = {
            CHECKPOINT: str(path),
            FOLDER: str(path if path.is_dir() else path.parent),
            OUTPUT: str(output),
            SPLIT: split,
        }
        tree = ProcessTree([_filled(word, values) for word in spec.argv], remove=folder)
        try:
            wait = tree.watch(limits, monitor, show)
            while not wait():
                pass
        finally:
            tree.end()
            tree.read_rest()
            printed, errors = tree.output.take(), tree.errors.take()
            log_lines(spec.argv[0], errors)
        if tree.exit_code:
            last = last_line(errors) or last_line(printed)
            raise EvaluationError(
                tr(
                    "The command {command!r} failed: {how}. {last}",
                    command=spec.text,
                    how=end_message(tree.exit_code),
                    last=last,
                ).rstrip()
            )
        return _result(output, printed), tree.peak


def _filled(word: str, values: dict[str, str]) -> str:
    """Replace the placeholders in a word, but not those in the values, such as names of files."""
    pattern = "|".join(map(re.escape, values))
    return re.sub(pattern, lambda match: values[match[0]], word)


def _result(output: Path, printed: str) -> dict[str, float]:
    """Return the metrics in the file at `output`, or in the newest below it, or else printed."""
    files = [output] if output.is_file() else [*output.rglob("*.json")]
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        with suppress(OSError, ValueError, RecursionError, EvaluationError):
            return metrics_of(json.loads(read_regular(path, MAX_RESULT_BYTES)))
    return metrics_in(printed)
