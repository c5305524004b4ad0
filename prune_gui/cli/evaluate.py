"""`prune-gui evaluate`: what a checkpoint, or a pruned one, is worth by the user's own measure."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prune_gui.cli import arguments
from prune_gui.cli.apply import load_recipe
from prune_gui.cli.printing import (
    MAX_NAME_LENGTH,
    Interrupted,
    StatusLine,
    aligned,
    job,
    print_json,
    print_line,
    print_lines,
)
from prune_gui.errors import EvaluationError, one_line
from prune_gui.location import Location
from prune_gui.number_formats import parse_bytes, short_bytes

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, Evaluator, Trial
    from prune_gui.evaluation.evaluator import CacheMode


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
        callback=arguments.parsed_by(parse_bytes),
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
    can_ask = sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()
    if not yes and not can_ask:
        raise EvaluationError(
            f"This would {what}, with all your rights, for the first time or after a change. "
            "If you trust it, add --yes."
        )
    question = one_line(f"This will {what}, with all your rights. Do you trust it?", 2000)
    if not yes and not click.confirm(question, err=True):
        raise EvaluationError("The evaluator was not run.")
    database.give_consent(digest)


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


targets_option = click.option(
    "--targets",
    multiple=True,
    metavar="PATTERN",
    default=("!dims<2",),
    show_default=True,
    help="Parameters to prune: a glob, or conditions. Can be given several times.",
)
recipe_option = click.option("--recipe", type=arguments.file, help="Recipe to apply before.")


def better_text(evaluator: Evaluator, evaluation: Evaluation) -> str:
    """Return which values are better."""
    return "higher" if evaluator.higher_is_better(evaluation) else "lower"


def title_text(evaluator: Evaluator, dense: Evaluation) -> str:
    """Return the heading of a table of values."""
    return f"{evaluator.title(dense)} ({better_text(evaluator, dense)} is better)"


def evaluator_json(evaluator: Evaluator, dense: Evaluation) -> dict[str, object]:
    """Return an evaluator and what it found before pruning, for JSON."""
    return {
        "evaluator": evaluator.spec.text,
        "metric": evaluator.title(dense),
        "better": better_text(evaluator, dense),
        "dense": evaluation_json(dense),
    }


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


@click.command()
@takes_evaluator
@click.argument("checkpoint", type=arguments.checkpoint_file)
@click.option("--recipe", type=arguments.file, help="Recipe to apply before; no file is changed.")
@click.option(
    "--split", default="final", show_default=True, help="Split of the data, if EVALUATOR takes one."
)
@arguments.one_state
@arguments.own_methods
@arguments.device
@arguments.as_json
def evaluate(
    evaluator: Evaluator,
    checkpoint: Location,
    recipe: Path | None,
    split: str,
    state: str | None,
    own: Sequence[Path],
    *,
    as_json: bool,
) -> None:
    """Run an evaluator on a checkpoint, pruned by a recipe if there is one.

    EVALUATOR is a command with {checkpoint} in it, such as "python eval.py {checkpoint}", which
    prints a number or JSON; or a function in a Python file, such as eval.py:evaluate, which gets a
    path or a state dict and returns a number, or numbers by name. {folder} is the folder of the
    checkpoint, {output} a file or folder for results in JSON. Results are stored, and not computed
    twice.
    """
    arguments.use_methods(own)
    steps = load_recipe(recipe)
    status = StatusLine()
    with (
        arguments.opened_checkpoint(checkpoint, state) as opened,
        job("Evaluating", with_bar=False) as (_, stop),
        status.shown("Evaluating"),
    ):
        result = evaluator.evaluate(opened, steps, split=split, cancel=stop, show=status.show)
    if evaluator.metric is not None:
        evaluator.value(result)  # an unknown name is an error
    if as_json:
        print_json({**_json(evaluator, result, checkpoint, recipe), "warnings": opened.warnings})
    else:
        print_lines(_lines(result, checkpoint))


def _json(
    evaluator: Evaluator, result: Evaluation, checkpoint: Location, recipe: Path | None
) -> dict[str, object]:
    from prune_gui.evaluation.metrics import json_number

    found: tuple[object, ...] = (None, None, None)
    with suppress(EvaluationError):  # several, none of which was chosen
        value = json_number(evaluator.value(result))
        found = evaluator.title(result), value, better_text(evaluator, result)
    return {
        "evaluator": evaluator.spec.text,
        "checkpoint": str(checkpoint),
        "recipe": None if recipe is None else str(recipe),
        **dict(zip(("metric", "value", "better"), found, strict=True)),
        **evaluation_json(result),
    }


def _lines(result: Evaluation, checkpoint: Location) -> Iterator[str]:
    from prune_gui.evaluation.metrics import number_text

    yield f"{checkpoint}: {result.pruned:,} of {result.total:,} pruned ({result.sparsity:.1%})"
    metrics = [(name, number_text(value)) for name, value in result.metrics.items()]
    yield from aligned([("Metric", "Value"), *metrics])
    stored = ", stored result" if result.cached else ""
    yield f"{result.seconds:.1f} s, {short_bytes(result.memory)} of memory{stored}"


def _as_shares(text: str) -> tuple[float, ...]:
    """Return the amounts that a text lists, which must be shares."""
    from prune_gui.recipe.amounts import parse_amounts

    amounts = parse_amounts(text)
    if any(isinstance(amount, int) for amount in amounts):
        raise ValueError("Write shares, such as 50% or 0.5.")
    return tuple(map(float, amounts))


@click.command()
@takes_evaluator
@click.argument("checkpoint", type=arguments.checkpoint_file)
@click.option(
    "--amounts",
    default="30%, 50%, 70%, 90%",
    show_default=True,
    callback=arguments.parsed_by(_as_shares),
    help='Shares to prune, such as "10% to 90% by 10%".',
)
@targets_option
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    help="Prune the parameters whose names begin with the same parts, this many, as one.",
)
@click.option("--method", default="l1_unstructured", show_default=True, help="Pruning method.")
@recipe_option
@arguments.one_state
@arguments.own_methods
@arguments.device
@arguments.as_json
def scan(
    evaluator: Evaluator,
    checkpoint: Location,
    amounts: tuple[float, ...],
    targets: tuple[str, ...],
    depth: int | None,
    method: str,
    recipe: Path | None,
    state: str | None,
    own: Sequence[Path],
    *,
    as_json: bool,
) -> None:
    """Prune one target at a time by several amounts, and run an evaluator on each.

    Tells which parts of a network are sensitive. EVALUATOR is that of `prune-gui evaluate`. After
    Ctrl-C, the results so far are printed, and the same command continues from there.
    """
    from prune_gui.evaluation.metrics import number_text
    from prune_gui.evaluation.trials import Trials, check_method, groups_of, scan_trials

    arguments.use_methods(own)
    check_method(method)
    base = load_recipe(recipe)
    status = StatusLine()
    made: list[Trial] = []
    with arguments.opened_checkpoint(checkpoint, state) as opened:
        groups = groups_of(opened, targets, depth, base.protect)
        count = len(groups) * len(amounts)
        dense: Evaluation | None = None

        def show() -> None:
            if dense is None:
                return
            if as_json:
                found = {"complete": len(made) == count, "trials": list(map(trial_json, made))}
                print_json({**evaluator_json(evaluator, dense), **found})
                return
            print_line(title_text(evaluator, dense))
            print_lines(aligned(_table(made, number_text(evaluator.value(dense)), groups, amounts)))
            print_lines(failures(made))

        try:
            with job("Scanning", with_bar=False) as (_, stop), status.shown("Evaluating"):
                trials = Trials(evaluator, opened, base, stop, status.show)
                dense = trials.dense
                for trial in scan_trials(trials, groups, amounts, method):
                    made.append(trial)
                    status.begin(f"{len(made)}/{count} evaluated")
        except Interrupted as interrupted:
            show()
            message = f"Interrupted after {len(made)} of {count} evaluations, which are kept."
            raise Interrupted(interrupted.exit_code, message) from None
        show()


def _table(
    trials: Iterable[Trial], dense: str, labels: Iterable[str], amounts: Sequence[float]
) -> list[list[str]]:
    """Return the value of each label at each amount; labels without a value are left out."""
    texts = {(trial.label, trial.amount): value_text(trial) for trial in trials}
    rows = [
        [one_line(label, MAX_NAME_LENGTH), *(texts.get((label, amount), "") for amount in amounts)]
        for label in labels
    ]
    return [
        ["Pruned", *(f"{amount:.4g}" for amount in amounts)],
        ["nothing", *[dense] * len(amounts)],
        *(row for row in rows if any(row[1:])),
    ]
