"""`prune-gui search`: the recipe with the most sparsity, or with the best value at a sparsity."""

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
    file,
    one_state,
    own_methods,
    use_methods,
)
from prune_gui.cli.printing import Interrupted, aligned, job, print_json, print_line
from prune_gui.errors import one_line
from prune_gui.location import Location

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.evaluation import Evaluation, Evaluator, Search, SearchResult, Trial
    from prune_gui.recipe import Recipe


def _as_share(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    """Return the number that a text such as 98% or 0.98 states."""
    if text is None:
        return None
    try:
        return float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a number.") from error


@click.command()
@takes_evaluator
@click.argument("checkpoint", type=checkpoint_file)
@click.option(
    "--at-least",
    metavar="SHARE",
    callback=_as_share,
    help="Find the most sparsity that holds this share of the dense value, such as 98%.",
)
@click.option(
    "--absolute", is_flag=True, help="--at-least is the value to hold itself, not a share."
)
@click.option(
    "--amount",
    metavar="SHARE",
    callback=_as_share,
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
    type=file,
    help="SQLite file of the trials, for optuna-dashboard. By default, beside the stored results.",
)
@click.option("-o", "--out", type=file, help="Recipe file to write.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@recipe_option
@one_state
@own_methods
@as_json
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
    the same sparsity. With --at-least, bisects the sparsity. With --trials, varies the shares of
    groups of parameters, the powers of balanced scores and the limit on the sparsity of a
    parameter, at the same sparsity in all. After Ctrl-C, the best recipe so far is printed, and the
    same command continues from there.
    """
    if (at_least is None) == (amount is None):
        raise click.UsageError("Give either --at-least or --amount.")
    if amount is not None and not 0 <= amount <= 1:
        raise click.UsageError("--amount must lie between 0 and 1, or 0% and 100%.")
    from prune_gui.checkpoint.write.documents import (
        RECIPE_SUFFIXES,
        check_documents,
        document_path,
    )

    if out is not None:
        out = document_path(out, RECIPE_SUFFIXES)
        check_documents([out], overwrite=overwrite)
    use_methods(own)
    base = loaded_recipe(recipe)
    with opened_checkpoint(checkpoint, state) as opened:
        run = _Run(evaluator, opened, base, targets, trials, storage)
        try:
            run.search(at_least, amount, absolute=absolute)
        except Interrupted:
            run.print(out, as_json=as_json)
            raise
        run.print(out, as_json=as_json)


class _Run:
    """A search whose trials are printed at its end, also if it is interrupted."""

    def __init__(
        self,
        evaluator: Evaluator,
        checkpoint: Checkpoint,
        base: Recipe,
        targets: Sequence[str],
        count: int,
        storage: Path | None,
    ) -> None:
        self._evaluator = evaluator
        self._checkpoint = checkpoint
        self._base = base
        self._targets = targets
        self._count = count
        self._storage = storage
        self._trials: list[Trial] = []
        self._search: Search | None = None
        self._result: SearchResult | None = None

    def search(self, at_least: float | None, amount: float | None, *, absolute: bool) -> None:
        """Carry out the search."""
        from prune_gui.evaluation import Search

        status = EvaluationStatus()

        def show_trial(trial: Trial) -> None:
            self._trials.append(trial)
            text = f"{trial.label} at {trial.amount:.4g}: {value_text(trial)}"
            status.begin(f"{len(self._trials)} evaluated, {text}")

        try:
            with job("Searching", with_bar=False) as (_, stop), status.shown("Evaluating"):
                self._search = Search(
                    self._evaluator, self._checkpoint, targets=self._targets, recipe=self._base,
                    trials=self._count, storage=self._storage, cancel=stop, show=status.show,
                    show_trial=show_trial,
                )  # fmt: skip
                if amount is not None:
                    self._search.at_amount(amount)
                elif at_least is not None:
                    self._search.at_least(at_least, absolute=absolute)
                self._result = self._search.result()
        except Interrupted as interrupted:
            message = f"Interrupted after {len(self._trials)} evaluations, which are kept."
            raise Interrupted(interrupted.exit_code, message) from None

    def print(self, out: Path | None, *, as_json: bool) -> None:
        """Print the trials and the best recipe so far, and write the recipe."""
        from prune_gui.checkpoint.write.documents import write_documents

        run = self._search
        if run is None:
            return
        recipe = run.best_recipe
        if recipe is not None and out is not None:
            recipe = recipe.lying_in(out.absolute().parent)
            text = "".join(f"# {line}\n" for line in self._lines(run)) + recipe.to_yaml()
            write_documents({out: text.encode()})
        if as_json:
            print_json(self._json(run, recipe, out))
            return
        for line in self._lines(run):
            print_line(line)
        if recipe is None:
            print_line("No ranking holds the value at any sparsity.")
        elif out is not None:
            print_line(f"Wrote {out}")
        else:
            for line in recipe.to_yaml().splitlines():
                print_line(line)

    def _lines(self, run: Search) -> Iterator[str]:
        """Yield the table of the trials, and the figures of the best one."""
        from prune_gui.evaluation.metrics import number_text

        dense = run.dense
        better = "higher" if self._evaluator.higher_is_better(dense) else "lower"
        title = self._evaluator.title(dense)
        yield one_line(f"{title} ({better} is better) of {self._evaluator.spec.text}")
        rows = [
            (trial.label, f"{trial.amount:.4g}", value_text(trial), "*" * (trial is run.best))
            for trial in self._trials
        ]
        nothing = ("nothing", "0", number_text(self._evaluator.value(dense)), "")
        yield from aligned([("Ranking", "Sparsity", "Value", "Best"), nothing, *rows])
        yield from failures(self._trials)
        if run.limit is not None:
            yield f"To hold: {number_text(run.limit)}"
        result = self._result
        if result is not None and result.final is not None:
            final, before = map(self._evaluator.value, (result.final, result.final_dense))
            yield f"Final value: {number_text(final)}; dense: {number_text(before)}"

    def _json(self, run: Search, recipe: Recipe | None, out: Path | None) -> dict[str, object]:
        better = "higher" if self._evaluator.higher_is_better(run.dense) else "lower"
        result = self._result
        return {
            "evaluator": self._evaluator.spec.text,
            "metric": self._evaluator.title(run.dense),
            "better": better,
            "complete": result is not None,
            "dense": evaluation_json(run.dense),
            "limit": run.limit,
            "best": run.best and trial_json(run.best),
            "final": _final_json(result.final if result else None),
            "final_dense": _final_json(result.final_dense if result else None),
            "recipe": recipe and recipe.model_dump(mode="json"),
            "out": str(out) if out is not None and recipe is not None else None,
            "trials": [trial_json(trial) for trial in self._trials],
        }


def _final_json(evaluation: Evaluation | None) -> dict[str, object] | None:
    return None if evaluation is None else evaluation_json(evaluation)
