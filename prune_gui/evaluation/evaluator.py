"""Evaluators: what a checkpoint, or a pruned checkpoint, is worth by the user's own measure."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self, cast
from weakref import WeakKeyDictionary

import psutil

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.errors import CheckpointError, EvaluationError
from prune_gui.evaluation.cache import Database, Evaluation
from prune_gui.evaluation.metrics import chosen, is_higher_better
from prune_gui.evaluation.running import FunctionProcess, run_command
from prune_gui.evaluation.spec import FINAL, TIMEOUT_S, EvaluatorSpec, PassAs
from prune_gui.isolated.watching import MemoryLimitError, ShowStatus, Watch
from prune_gui.monitor import CancelFlag, Monitor, Report
from prune_gui.recipe.recipe import Recipe, own_version

if TYPE_CHECKING:
    from prune_gui.recipe.recipe import Step
    from prune_gui.recipe.resolution import Resolution


MEMORY_SHARE: Final = 0.9
"""The share of the free memory that an evaluator may take by default."""

Better = Literal["higher", "lower"]
CacheMode = Literal["use", "fresh", "off"]
"""Whether stored results are used; only written; or neither."""


class Evaluator:
    """A command or a Python function that tells what a checkpoint is worth. A context manager.

    A command is run once for each checkpoint, ``{checkpoint}`` in it is the path of a file like the
    input, ``{folder}`` its folder, ``{split}`` the name of a split of the data. It prints a number
    or a JSON object, or writes one to ``{output}``.

    A function is loaded once, in a process of its own, and called with each checkpoint. It gets a
    path if its first parameter is called checkpoint, path, file, filename, ``..._path`` or
    ``..._file``, or is annotated as a path or str; else a dictionary of tensors by name. It returns
    a number, or numbers by name. If it has a parameter ``split``, it gets the name of a split of
    the data, "search" or "final".

    Not thread-safe.

    Args:
        text: ``COMMAND ... {checkpoint} ...`` or ``FILE.py:FUNCTION``. It runs with all rights of
            the user.
        python: the interpreter of a function; None for the one that runs this program.
        pass_as: what a function gets, ``path`` or ``state_dict``; None if its parameters decide.
        metric: the name of the number that counts; None if there is only one.
        better: whether a ``higher`` or a ``lower`` value is better; None: the name of the metric
            decides (loss, perplexity, error and the like: lower).
        name: how the metric is called in tables; None for its own name.
        timeout_s: limit on the time of one evaluation, and of loading the file, in seconds.
        memory_limit: limit on the memory of all processes of the evaluator, in bytes; None: 90 % of
            what is free at first.
        cache: ``use`` stored results, ``fresh``: only store them, ``off``: neither. The key of a
            result has the evaluator (its text, the Python files beside it, its interpreter, the
            working folder), the checkpoint and the recipe.
        database: the file of the stored results; None for that of the user.


    Raises:
        EvaluationError: the text is no evaluator, or its file or interpreter does not exist.
    """

    def __init__(
        self,
        text: str,
        *,
        python: str | None = None,
        pass_as: PassAs | None = None,
        metric: str | None = None,
        better: Better | None = None,
        name: str | None = None,
        timeout_s: float = TIMEOUT_S,
        memory_limit: int | None = None,
        cache: CacheMode = "use",
        database: Path | None = None,
    ) -> None:
        self.spec = EvaluatorSpec.parse(text, python, pass_as)
        self.metric = metric
        self._better = better
        self._name = name
        free = psutil.virtual_memory().available
        self._limits = timeout_s, memory_limit or int(free * MEMORY_SHARE)
        self.cache = cache
        self.database = Database(database)
        self._process: FunctionProcess | None = None
        self._digest = self.spec.digest()
        self._fingerprints: WeakKeyDictionary[Checkpoint, str] = WeakKeyDictionary()

    def evaluate(
        self,
        checkpoint: Checkpoint | str | os.PathLike[str],
        recipe: Recipe | None = None,
        *,
        split: str = FINAL,
        cancel: CancelFlag | None = None,
        show: ShowStatus | None = None,
    ) -> Evaluation:
        """Return what the evaluator says of a checkpoint, pruned by a recipe.

        Args:
            checkpoint: an open checkpoint, or a path.
            recipe: the recipe; None: the checkpoint as it is.
            split: the name of the split of the data, if the evaluator takes one.
            cancel: for example a `threading.Event`.
            show: called about twice a second with time and memory.

        Raises:
            EvaluationError: the evaluator fails, exceeds a limit, or returns no numbers.
            RecipeError: the recipe cannot be applied.
            CheckpointError: the checkpoint cannot be read, or handed over.
        """
        if not isinstance(checkpoint, Checkpoint):
            with open_checkpoint(checkpoint) as opened:
                return self.evaluate(opened, recipe, split=split, cancel=cancel, show=show)
        from prune_gui.recipe.resolution import resolve  # torch: slow to import

        recipe = recipe or Recipe()
        monitor = Monitor(None, cancel, cast("Report | None", show))
        resolve_now = partial(resolve, recipe, checkpoint, None, cancel)
        return self.evaluate_lazily(checkpoint, recipe, resolve_now, split, monitor)

    def evaluate_lazily(
        self,
        checkpoint: Checkpoint,
        recipe: Recipe,
        resolve: Callable[[], Resolution],
        split: str,
        monitor: Monitor,
    ) -> Evaluation:
        """Do as `evaluate`, but call `resolve` only if there is no stored result."""
        key = "" if self.cache == "off" else self.key(checkpoint, recipe, split, monitor)
        if self.cache == "use":
            stored = self.database.get(key)
            if stored is not None:
                return stored
        resolution = resolve()
        began = time.monotonic()
        try:
            metrics, peak = self._run(resolution, split, monitor)
        except MemoryLimitError:
            if self._process is None or not self._process.answered:
                raise
            metrics, peak = self._run(resolution, split, monitor)  # it may leak: begin anew
        pruned, total = resolution.total
        evaluation = Evaluation(metrics, time.monotonic() - began, peak, pruned, total)
        if self.cache != "off":
            self.database.put(key, evaluation)
        return evaluation

    def value(self, evaluation: Evaluation) -> float:
        """Return the number that counts; it is an error if there is none, or no single one."""
        return evaluation.metrics[chosen(evaluation.metrics, self.metric)]

    def title(self, evaluation: Evaluation) -> str:
        """Return how the number that counts is called; see `value`."""
        return self._name or chosen(evaluation.metrics, self.metric)

    def higher_is_better(self, evaluation: Evaluation) -> bool:
        """Return whether higher values of the number that counts are better; see `value`."""
        if self._better is not None:
            return self._better == "higher"
        return is_higher_better(chosen(evaluation.metrics, self.metric))

    def close(self) -> None:
        """End the process of a function, if there is one; the next evaluation starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(
        self, resolution: Resolution, split: str, monitor: Monitor
    ) -> tuple[dict[str, float], int]:
        watch = Watch(*self._limits, monitor)
        if self.spec.kind == "command":
            return run_command(self.spec, resolution, split, watch)
        if self._process is not None and self._process.has_ended:
            self.close()
        self._process = self._process or FunctionProcess(self.spec, resolution, watch)
        return self._process.evaluate(resolution, split, watch)

    def key(self, checkpoint: Checkpoint, recipe: Recipe, split: str, monitor: Monitor) -> str:
        """Return the key of a result: a digest of evaluator, checkpoint, recipe and split."""
        steps = [_step_digest(step, monitor) for step in recipe.steps if step.enabled]
        parts: list[object] = [self._digest, split if self.spec.takes_split else ""]
        parts += [self._fingerprint(checkpoint, monitor), checkpoint.state_dict]
        if steps:  # these decide what the steps prune
            table = recipe.table and _file_digest(recipe.table, monitor)
            network = [list(checkpoint.model_types), dict(checkpoint.hf_config), table]
            parts += [own_version(), recipe.start, recipe.protect, network, steps]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _fingerprint(self, checkpoint: Checkpoint, monitor: Monitor) -> str:
        checkpoint.check()  # a changed file is an error
        if checkpoint not in self._fingerprints:
            self._fingerprints[checkpoint] = checkpoint.fingerprint(monitor)
        return self._fingerprints[checkpoint]


def _step_digest(step: Step, monitor: Monitor) -> str:
    """Return a digest of a step, of the files that it names, and of the code of a plug-in."""
    parts = [step.model_dump_json()]
    parts += (_file_digest(path, monitor) for path in step.method.files.values())
    process = getattr(step.method, "process", None)
    if process is not None:
        parts.append(process.origin_digest)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _file_digest(path: str, monitor: Monitor) -> str:
    try:
        with open_checkpoint(path) as opened:
            return opened.fingerprint(monitor)
    except CheckpointError:
        pass
    unreadable = EvaluationError.on_os_error("{path} cannot be read: {reason}.", path=path)
    with unreadable, Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
