"""`prune-gui evaluate`: what a checkpoint, or a pruned one, is worth by the user's own measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prune_gui.cli.evaluating import (
    EvaluationStatus,
    evaluation_json,
    loaded_recipe,
    takes_evaluator,
)
from prune_gui.cli.opening import opened_checkpoint
from prune_gui.cli.options import (
    as_json,
    checkpoint_file,
    file,
    one_state,
    own_methods,
    use_methods,
)
from prune_gui.cli.printing import aligned, job, print_json, print_line
from prune_gui.errors import EvaluationError
from prune_gui.location import Location
from prune_gui.number_formats import short_bytes

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluation, Evaluator


@click.command()
@takes_evaluator
@click.argument("checkpoint", type=checkpoint_file)
@click.option("--recipe", type=file, help="Recipe to apply before; no file is changed.")
@click.option(
    "--split", default="final", show_default=True, help="Split of the data, if EVALUATOR takes one."
)
@one_state
@own_methods
@as_json
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
    use_methods(own)
    steps = loaded_recipe(recipe)
    status = EvaluationStatus()
    with (
        opened_checkpoint(checkpoint, state) as opened,
        job("Evaluating", with_bar=False) as (_, stop),
        status.shown("Evaluating"),
    ):
        result = evaluator.evaluate(opened, steps, split=split, cancel=stop, show=status.show)
    if evaluator.metric is not None:
        evaluator.value(result)  # an unknown name is an error
    if as_json:
        print_json({**_json(evaluator, result, checkpoint, recipe), "warnings": opened.warnings})
        return
    for line in _lines(result, checkpoint):
        print_line(line)


def _json(
    evaluator: Evaluator, result: Evaluation, checkpoint: Location, recipe: Path | None
) -> dict[str, object]:
    from prune_gui.evaluation.metrics import json_number

    counts: dict[str, object] = {"metric": None, "value": None, "better": None}
    with suppress(EvaluationError):  # several, none of which was chosen
        counts = {
            "metric": evaluator.title(result),
            "value": json_number(evaluator.value(result)),
            "better": "higher" if evaluator.higher_is_better(result) else "lower",
        }
    return {
        "evaluator": evaluator.spec.text,
        "checkpoint": str(checkpoint),
        "recipe": None if recipe is None else str(recipe),
        **counts,
        **evaluation_json(result),
    }


def _lines(result: Evaluation, checkpoint: Location) -> Iterator[str]:
    from prune_gui.evaluation.metrics import number_text

    yield f"{checkpoint}: {result.pruned:,} of {result.total:,} pruned ({result.sparsity:.1%})"
    metrics = [(name, number_text(value)) for name, value in result.metrics.items()]
    yield from aligned([("Metric", "Value"), *metrics])
    stored = ", stored result" if result.cached else ""
    yield f"{result.seconds:.1f} s, {short_bytes(result.memory)} of memory{stored}"
