"""What the commands that run an evaluator share: its options, consent, and the status line."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prune_gui.cli.options import as_bytes, file
from prune_gui.cli.printing import StatusLine
from prune_gui.errors import EvaluationError, one_line
from prune_gui.number_formats import short_bytes

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, Evaluator, Trial
    from prune_gui.evaluation.evaluator import CacheMode
    from prune_gui.evaluation.process import Status

OPTIONS = (
    click.argument("text", metavar="EVALUATOR"),
    click.option("--metric", metavar="NAME", help="The number that counts, if there are several."),
    click.option(
        "--better",
        type=click.Choice(["higher", "lower"]),
        help="Which values are better. By default, the name of the metric decides: lower for "
        "loss, perplexity, error and the like.",
    ),
    click.option("--name", metavar="TEXT", help="How to call the metric in tables."),
    click.option("--python", metavar="FILE", help="Interpreter of a function; it needs torch."),
    click.option(
        "--pass",
        "pass_as",
        type=click.Choice(["path", "state_dict"]),
        help="What a function gets. By default, the name of its first parameter decides: path for "
        "checkpoint, path, file, filename and ..._path.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=3600,
        show_default=True,
        metavar="SECONDS",
        help="Limit on the time of one evaluation.",
    ),
    click.option(
        "--memory-limit",
        callback=as_bytes,
        metavar="SIZE",
        help="Limit on the memory of the evaluator, such as 8GB. By default, 90% of what is free.",
    ),
    click.option("--fresh", is_flag=True, help="Evaluate again what was evaluated before."),
    click.option("--no-cache", is_flag=True, help="Neither use nor store results."),
    click.option(
        "--yes", is_flag=True, help="Run the evaluator without asking whether you trust it."
    ),
)


def takes_evaluator(command: Callable[..., None]) -> Callable[..., None]:
    """Add the argument EVALUATOR and its options to a command, which gets an `Evaluator` instead.

    The user is asked for consent before the command begins, and the evaluator is closed after it.
    """

    @wraps(command)
    def with_evaluator(
        text: str, timeout: float, fresh: bool, no_cache: bool, yes: bool, **rest: object
    ) -> None:
        from prune_gui.evaluation import Evaluator  # pydantic: slow to import

        own = ("metric", "better", "name", "python", "pass_as", "memory_limit")
        settings: dict[str, Any] = {name: rest.pop(name) for name in own}
        cache: CacheMode = "off" if no_cache else "fresh" if fresh else "use"
        with Evaluator(text, timeout_s=timeout, cache=cache, **settings) as evaluator:
            require_consent(evaluator, yes=yes)
            command(evaluator, **rest)

    for option in reversed(OPTIONS):
        option(with_evaluator)
    return with_evaluator


def require_consent(evaluator: Evaluator, *, yes: bool) -> None:
    """Ask whether the evaluator may run, once for each command and content of its files."""
    spec, database = evaluator.spec, evaluator.database
    digest = spec.code_digest()
    if database.has_consent(digest):
        return
    what = f"run the command {spec.text!r}"
    if spec.path is not None:
        what = f"run the file {spec.path} with {spec.python}"
    if not yes:
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
            raise EvaluationError(
                f"This would {what}, with all your rights, for the first time or after a change. "
                "If you trust it, add --yes."
            )
        question = one_line(f"This will {what}, with all your rights. Do you trust it?", 2000)
        if not click.confirm(question, err=True):
            raise EvaluationError("The evaluator was not run.")
    database.give_consent(digest)


class EvaluationStatus:
    """Shows on a terminal what is being evaluated, for how long, and the memory it takes."""

    def __init__(self) -> None:
        self._line = StatusLine()
        self.label = ""

    def show(self, status: Status) -> None:
        """Replace the line."""
        self._line.show(f"{self.label}  {status.seconds:.0f} s, {short_bytes(status.memory)}")

    @contextmanager
    def shown(self, label: str) -> Iterator[None]:
        """Show the line during a block."""
        self.begin(label)
        try:
            yield
        finally:
            self._line.clear()

    def begin(self, label: str) -> None:
        """Show what begins now."""
        self.label = label
        self._line.show(label)


def evaluation_json(evaluation: Evaluation) -> dict[str, object]:
    """Return an evaluation for JSON; numbers that are not finite are null."""
    from prune_gui.evaluation.metrics import json_number

    return {
        "metrics": {name: json_number(value) for name, value in evaluation.metrics.items()},
        "pruned": evaluation.pruned,
        "total": evaluation.total,
        "sparsity": evaluation.sparsity,
        "seconds": round(evaluation.seconds, 3),
        "memory_bytes": evaluation.memory,
        "cached": evaluation.cached,
    }


def loaded_recipe(path: Path | None) -> Any:  # noqa: ANN401 - `Recipe`, which is slow to import
    """Return the recipe in a file; without one, an empty recipe."""
    from prune_gui.cli.apply import load_recipe
    from prune_gui.recipe import Recipe  # pydantic: slow to import

    return Recipe() if path is None else load_recipe(path)


targets_option = click.option(
    "--targets",
    multiple=True,
    metavar="PATTERN",
    default=("!dims<2",),
    show_default=True,
    help="Parameters to prune: a glob, or conditions. Can be given several times.",
)
recipe_option = click.option("--recipe", type=file, help="Recipe to apply before.")


def trial_json(trial: Trial) -> dict[str, object]:
    """Return a trial for JSON."""
    from prune_gui.evaluation.metrics import json_number

    return {
        "label": trial.label,
        "amount": trial.amount,
        "value": json_number(trial.value),
        "error": trial.error or None,
        "evaluation": trial.evaluation and evaluation_json(trial.evaluation),
    }


def value_text(trial: Trial) -> str:
    """Return the value of a trial, or "failed"."""
    from prune_gui.evaluation.metrics import number_text

    return "failed" if trial.error else number_text(trial.value)


def failures(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield a line for each different error of the trials."""
    counts = Counter(trial.error for trial in trials if trial.error)
    for error, count in counts.items():
        yield f"Failed ({count}): {error}"
