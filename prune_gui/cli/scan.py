"""`prune-gui scan`: what pruning one target at a time costs, by the user's own measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prune_gui.cli.evaluating import (
    EvaluationStatus,
    evaluation_json,
    failures,
    loaded_recipe,
    recipe_option,
    takes_evaluator,
    targets_option,
    trial_json,
    value_text,
)
from prune_gui.cli.opening import opened_checkpoint
from prune_gui.cli.options import (
    as_json,
    checkpoint_file,
    one_state,
    own_methods,
    use_methods,
)
from prune_gui.cli.printing import (
    MAX_NAME_LENGTH,
    Interrupted,
    aligned,
    job,
    print_json,
    print_line,
)
from prune_gui.errors import one_line
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, Evaluator, Trial


def _as_shares(_ctx: click.Context, _param: click.Parameter, text: str) -> tuple[float, ...]:
    """Return the amounts that a text lists, which must be shares."""
    from prune_gui.recipe.amounts import parse_amounts

    try:
        amounts = parse_amounts(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if any(isinstance(amount, int) for amount in amounts):
        raise click.BadParameter("Write shares, such as 50% or 0.5.")
    return tuple(map(float, amounts))


@click.command()
@takes_evaluator
@click.argument("checkpoint", type=checkpoint_file)
@click.option(
    "--amounts",
    default="30%, 50%, 70%, 90%",
    show_default=True,
    callback=_as_shares,
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
@one_state
@own_methods
@as_json
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
    from prune_gui.evaluation.scan import check_method, groups_of, scan_trials
    from prune_gui.evaluation.trials import Trials

    use_methods(own)
    check_method(method)
    base = loaded_recipe(recipe)
    status = EvaluationStatus()
    made: list[Trial] = []
    with opened_checkpoint(checkpoint, state) as opened:
        groups = groups_of(opened, targets, depth)
        count = len(groups) * len(amounts)
        dense: Evaluation | None = None
        try:
            with job("Scanning", with_bar=False) as (_, stop), status.shown("Evaluating"):
                trials = Trials(evaluator, opened, base, stop, status.show)
                dense = trials.dense
                for trial in scan_trials(trials, groups, amounts, method):
                    made.append(trial)
                    status.begin(f"{len(made)}/{count} evaluated")
        except Interrupted as interrupted:
            if dense is not None:
                _print(evaluator, made, dense, list(groups), amounts, as_json=as_json)
            message = f"Interrupted after {len(made)} of {count} evaluations, which are kept."
            raise Interrupted(interrupted.exit_code, message) from None
        _print(evaluator, made, dense, list(groups), amounts, as_json=as_json)


def _print(
    evaluator: Evaluator,
    trials: Sequence[Trial],
    dense: Evaluation,
    labels: Sequence[str],
    amounts: Sequence[float],
    *,
    as_json: bool,
) -> None:
    better = "higher" if evaluator.higher_is_better(dense) else "lower"
    if as_json:
        print_json(
            {
                "evaluator": evaluator.spec.text,
                "metric": evaluator.title(dense),
                "better": better,
                "complete": len(trials) == len(labels) * len(amounts),
                "dense": evaluation_json(dense),
                "trials": [trial_json(trial) for trial in trials],
            }
        )
        return
    print_line(f"{evaluator.title(dense)} ({better} is better)")
    for line in aligned(list(_table(evaluator, trials, dense, labels, amounts))):
        print_line(line)
    for line in failures(trials):
        print_line(line)


def _table(
    evaluator: Evaluator,
    trials: Sequence[Trial],
    dense: Evaluation,
    labels: Sequence[str],
    amounts: Sequence[float],
) -> Iterator[list[str]]:
    from prune_gui.evaluation.metrics import number_text

    yield ["Pruned", *(f"{amount:.4g}" for amount in amounts)]
    yield ["nothing", *[number_text(evaluator.value(dense))] * len(amounts)]
    texts = {(trial.label, trial.amount): value_text(trial) for trial in trials}
    for label in labels:
        cells = [texts.get((label, amount), "") for amount in amounts]
        if any(cells):
            yield [one_line(label, MAX_NAME_LENGTH), *cells]
