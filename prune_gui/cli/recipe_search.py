"""`prune-gui search`: the recipe with the most sparsity, or with the best value at a sparsity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prune_gui.cli import arguments
from prune_gui.cli.apply import load_recipe
from prune_gui.cli.evaluate import (
    evaluation_json,
    evaluator_json,
    failures,
    recipe_option,
    takes_evaluator,
    targets_option,
    title_text,
    trial_json,
    value_text,
)
from prune_gui.cli.printing import (
    Interrupted,
    StatusLine,
    aligned,
    job,
    number_of,
    print_json,
    print_line,
    print_lines,
)
from prune_gui.errors import one_line
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.evaluation import Evaluator, Search, SearchResult, Trial


def _as_share(text: str) -> float:
    """Return the number that a text such as 98% or 0.98 states."""
    try:
        return float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a number.") from error


@click.command()
@takes_evaluator
@click.argument("checkpoint", type=arguments.checkpoint_file)
@click.option(
    "--at-least",
    metavar="SHARE",
    callback=arguments.parsed_by(_as_share),
    help="Find the most sparsity that holds this share of the dense value, such as 98%.",
)
@click.option(
    "--absolute", is_flag=True, help="--at-least is the value to hold itself, not a share."
)
@click.option(
    "--amount",
    metavar="SHARE",
    callback=arguments.parsed_by(_as_share),
    help="Find the best recipe at this sparsity of the targets, such as 70%.",
)
@targets_option
@click.option(
    "--trials",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Then make N trials around the best recipe with Optuna (pip install 'prune-gui[search]').",
)
@click.option(
    "--storage",
    type=arguments.file,
    help="SQLite file of the trials, for optuna-dashboard. By default, beside the stored results.",
)
@click.option("-o", "--out", type=arguments.file, help="Recipe file to write.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@recipe_option
@arguments.one_state
@arguments.own_methods
@arguments.device
@arguments.as_json
def search(
    evaluator: Evaluator,
    checkpoint: Location,
    at_least: float | None,
    amount: float | None,
    targets: tuple[str, ...],
    trials: int,
    storage: Path | None,
    out: Path | None,
    recipe: Path | None,
    state: str | None,
    own: Sequence[Path],
    *,
    absolute: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Search for a recipe with an evaluator, which is that of `prune-gui evaluate`.

    Compares rankings that need no data (balanced scores, RIA, global and uniform L1, LAMP, ERK) at
    the same sparsity; with recordings beside CHECKPOINT, also Wanda, RIA with activations, OBD and
    Taylor, and the best ones with corrections of kept weights. With --at-least, bisects the
    sparsity. With --trials, varies the shares of groups of parameters, the powers of balanced
    scores and the limit on the sparsity of a parameter, at the same sparsity in all. After Ctrl-C,
    the best recipe so far is printed, or written to OUT, and the same command continues from there;
    with --overwrite, if it wrote OUT.
    """
    if (at_least is None) == (amount is None):
        raise click.UsageError("Give either --at-least or --amount.")
    if amount is not None and not 0 <= amount <= 1:
        raise click.UsageError("--amount must lie between 0 and 1, or 0% and 100%.")
    from prune_gui.checkpoint.write import documents
    from prune_gui.evaluation import Search

    if out is not None:
        out = documents.document_path(out, documents.RECIPE_SUFFIXES)
        documents.check_documents([out], overwrite=overwrite)
    arguments.use_methods(own)
    base = load_recipe(recipe)
    status = StatusLine()
    run: Search | None = None
    result: SearchResult | None = None
    made: list[Trial] = []

    def show_trial(trial: Trial) -> None:
        made.append(trial)
        text = f"{trial.label} at {trial.amount:.4g}: {value_text(trial)}"
        status.begin(f"{len(made)} evaluated, {text}")

    def show() -> None:
        if run is None:
            return
        found, lines = run.best_recipe, list(_lines(evaluator, run, result))
        if found is not None and out is not None:
            found = found.lying_in(out.absolute().parent)
            text = "".join(f"# {line}\n" for line in lines) + found.to_yaml()
            documents.write_documents({out: text.encode()})
        if as_json:
            print_json(
                {
                    **evaluator_json(evaluator, run.dense),
                    "complete": result is not None,
                    "limit": run.limit,
                    "best": run.best and trial_json(run.best),
                    "final": result and result.final and evaluation_json(result.final),
                    "final_dense": result and evaluation_json(result.final_dense),
                    "recipe": found and found.model_dump(mode="json"),
                    "out": str(out) if out is not None and found is not None else None,
                    "trials": [trial_json(trial) for trial in run.trials],
                }
            )
            return
        print_lines(lines)
        if found is None:
            print_line("No ranking holds the value at any sparsity.")
        elif out is not None:
            print_line(f"Wrote {out}")
        else:
            print_lines(found.to_yaml().splitlines())

    with arguments.opened_checkpoint(checkpoint, state) as opened:
        try:
            with job("Searching", with_bar=False) as (_, stop), status.shown("Evaluating"):
                run = Search(
                    evaluator, opened, targets=targets, recipe=base,
                    trials=trials, storage=storage, cancel=stop, show=status.show,
                    show_trial=show_trial,
                )  # fmt: skip
                result = run.run(at_least, amount, absolute=absolute)
        except Interrupted as interrupted:
            show()
            kept = "which is kept" if len(made) == 1 else "which are kept"
            message = f"Interrupted after {number_of(len(made), 'evaluation')}, {kept}."
            if out is not None and out.exists() and not overwrite:
                message += f" To go on, add --overwrite: {out} has the best recipe so far."
            raise Interrupted(interrupted.exit_code, message) from None
        show()


def _lines(evaluator: Evaluator, run: Search, result: SearchResult | None) -> Iterator[str]:
    """Yield the table of the trials, and the figures of the best one."""
    from prune_gui.evaluation.metrics import number_text

    yield one_line(f"{title_text(evaluator, run.dense)} of {evaluator.spec.text}")
    rows = [
        (trial.label, f"{trial.amount:.4g}", value_text(trial), "*" * (trial is run.best))
        for trial in run.trials
    ]
    nothing = ("nothing", "0", number_text(evaluator.value(run.dense)), "")
    yield from aligned([("Ranking", "Sparsity", "Value", "Best"), nothing, *rows])
    yield from failures(run.trials)
    if run.limit is not None:
        yield f"To hold: {number_text(run.limit)}"
    if result is not None and result.final is not None:
        final, before = map(evaluator.value, (result.final, result.final_dense))
        yield f"Final value: {number_text(final)}; dense: {number_text(before)}"
