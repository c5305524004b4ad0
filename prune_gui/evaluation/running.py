"""Running a function as an evaluator: one process for many checkpoints."""

from __future__ import annotations

import json
import logging
import re
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prune_gui.checkpoint.safetensors.format import DTYPES
from prune_gui.errors import CheckpointError, EvaluationError, one_line
from prune_gui.evaluation.metrics import metrics_in, metrics_of
from prune_gui.evaluation.spec import CHECKPOINT, FOLDER, OUTPUT, SPLIT, EvaluatorSpec
from prune_gui.isolated.messages import ask
from prune_gui.isolated.watching import (
    CONNECTION,
    MAX_LOGGED_LINES,
    ProcessTree,
    Watch,
    end_message,
    last_line,
    log_lines,
)
from prune_gui.language import deferred, tr
from prune_gui.regular_files import read_regular

if TYPE_CHECKING:
    from prune_gui.recipe.resolution import Resolution


log = logging.getLogger(__name__)

GRACE_S: Final = 1.0
WORKER: Final = Path(__file__).with_name("function_worker.py")
START_CODE: Final = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; "
    "exec(compile(open(sys.argv[1], encoding='utf-8').read(), sys.argv[1], 'exec'))"
)
"""Runs the worker without its folder, or the working folder, on the import path."""
FAULTS: Final = {
    "raised": deferred("{told} ({place})"),
    "no_function": deferred("No function {name}: the file has {names} ({place})"),
    "no_parameter": deferred("The function takes no argument: it must take a checkpoint ({place})"),
    "not_a_number": deferred(
        "The function returned a {kind}: it must return a number, or numbers by name ({place})"
    ),
    "no_dtype": deferred("The evaluator's torch has no dtype {dtype}, that of {name} ({place})"),
}
"""By the code that the worker sends."""


class ReportedError(EvaluationError):
    """An error that the process reported itself, and after which it continues."""


class FunctionProcess:
    """The process in which the file of an evaluator is loaded."""

    def __init__(self, spec: EvaluatorSpec, resolution: Resolution, watch: Watch) -> None:
        from prune_gui.evaluation.handover import handover_folder  # torch: slow to import

        self._spec = spec
        self.answered = 0
        with ExitStack() as stack:
            self._folder = stack.enter_context(handover_folder(resolution))
            argv = [spec.python, "-u", "-c", START_CODE, str(WORKER), str(CONNECTION)]
            self._tree = ProcessTree(argv, is_connected=True, remove=self._folder)
            stack.callback(self._tree.end)
            load = {"path": str(spec.path), "source": spec.source.decode("latin-1")}
            request = {"do": "load", "function": spec.function, **load}
            described = self._ask(request, watch)
            self._stack = stack.pop_all()
        self.takes = spec.pass_as or described.get("takes")
        self.takes_split = described.get("split") is True

    def evaluate(
        self, resolution: Resolution, split: str, watch: Watch
    ) -> tuple[dict[str, float], int]:
        """Call the function on a pruned checkpoint; return the metrics and peak memory in bytes."""
        from prune_gui.checkpoint.write.temp_files import remove
        from prune_gui.evaluation.handover import tensors_file, write_checkpoint_in  # torch: slow

        request: dict[str, Any] = {"do": "evaluate", "path": None}
        request["split"] = split if self.takes_split else None
        try:
            if self.takes == "path":
                path = write_checkpoint_in(self._folder, resolution, watch.monitor)
                reply = self._ask({**request, "path": str(path)}, watch)
            else:
                request["dtypes"] = DTYPES
                with tensors_file(resolution, watch.monitor) as descriptor:
                    reply = self._ask(request, watch, descriptor)
        except (ReportedError, CheckpointError):
            raise
        except BaseException:  # the process may be busy, or in an unknown state
            self.end()
            raise
        finally:
            remove(self._folder / "model")
        self.answered += 1
        self._tree.memory()
        return metrics_of(reply.get("value")), self._tree.peak

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, or was ended."""
        if not self._tree.has_ended and self._tree.wait(timeout_s=0):
            self.end()  # it closed the connection after the last evaluation
        return self._tree.has_ended

    def end(self) -> None:
        """End the process and all that it started."""
        self._stack.close()

    def _ask(self, request: dict[str, Any], watch: Watch, *descriptors: int) -> dict[str, Any]:
        """Send a request, and return the reply; an error leaves the process in an unknown state."""
        wait = self._tree.watch(watch)

        def check() -> None:
            if not wait() and self._tree.has_ended:  # a child process may hold the connection open
                raise ConnectionResetError

        reply: object = None
        try:
            reply = ask(self._tree.connection, request, check, *descriptors)
        except ConnectionError:
            self._wait_for_end()
        except ValueError as error:
            log.info("The evaluator %s sent an invalid reply: %s", self._spec.text, error)
            reply = ""
        finally:
            self._tree.read_rest()
            output = self._tree.output.take() + self._tree.errors.take()
            log_lines(self._spec.function, output)
        if reply is None and self._tree.has_ended:
            raise _ended(self._spec, self._tree.exit_code or 0, output)
        if not isinstance(reply, dict):
            raise self._invalid(output)
        if "fault" in reply:
            raise self._fault(reply["fault"], output)
        return reply

    def _wait_for_end(self) -> None:
        self._tree.is_connected = False
        deadline = time.monotonic() + GRACE_S
        while not self._tree.has_ended and time.monotonic() < deadline:
            self._tree.wait()

    def _invalid(self, output: str) -> EvaluationError:
        return EvaluationError(
            "The evaluator corrupted its connection to this program.",
            details=_details(self._spec, output),
        )

    def _fault(self, fault: object, output: str) -> EvaluationError:
        if isinstance(fault, list) and len(fault) == 2 and isinstance(fault[1], dict):
            message, fields = FAULTS.get(str(fault[0])), fault[1]
            if message is not None:
                with suppress(KeyError):
                    shown = {key: one_line(str(value), 300) for key, value in fields.items()}
                    place = Path(self._spec.text).name
                    if fields.get("line"):
                        file = place.rpartition(":")[0]
                        place = tr("{file}, line {line}", file=file, line=shown["line"])
                    problem = tr(message, **{**shown, "place": place})
                    return ReportedError(problem, details=_details(self._spec, output))
        return self._invalid(output)


def _ended(spec: EvaluatorSpec, exit_code: int, output: str) -> EvaluationError:
    """Return the error of an evaluator that has ended: the cause, which it printed last, first."""
    how, last, details = end_message(exit_code), last_line(output), _details(spec, output)
    if not last:
        return EvaluationError("The evaluator failed: {how}.", how=how, details=details)
    return EvaluationError(
        "{cause} (the evaluator failed: {how})", cause=last, how=how, details=details
    )


def _details(spec: EvaluatorSpec, output: str) -> str:
    lines = output.splitlines()[-MAX_LOGGED_LINES:]
    return "\n".join((spec.text, spec.python, "", *lines))


MAX_RESULT_BYTES: Final = 1 << 24


def run_command(
    spec: EvaluatorSpec, resolution: Resolution, split: str, watch: Watch
) -> tuple[dict[str, float], int]:
    """Run a command on a pruned checkpoint; return its metrics and its peak memory in bytes."""
    from prune_gui.evaluation.handover import handover_folder, write_checkpoint_in  # torch: slow

    with handover_folder(resolution) as folder:
        path = write_checkpoint_in(folder, resolution, watch.monitor)
        output = folder / "output"
        values = {
            CHECKPOINT: str(path),
            FOLDER: str(path if path.is_dir() else path.parent),
            OUTPUT: str(output),
            SPLIT: split,
        }
        tree = ProcessTree([_filled(word, values) for word in spec.argv], remove=folder)
        try:
            wait = tree.watch(watch)
            while not wait():
                pass
        finally:
            tree.end()
            tree.read_rest()
            printed, errors = tree.output.take(), tree.errors.take()
            log_lines(spec.argv[0], errors)
        if tree.exit_code:
            raise _ended(spec, tree.exit_code, errors.strip() or printed)
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
