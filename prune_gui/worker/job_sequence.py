"""Job sequences: one job per row of a table, so that other jobs can run in between."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from prune_gui.language import deferred
from prune_gui.recipe.batch import BatchRow, outputs, prune_file
from prune_gui.worker.engine import Job

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.recipe import OutputOptions, Recipe
    from prune_gui.recipe.amounts import Amount
    from prune_gui.session import Session
    from prune_gui.session.sweep import Sweep, SweepRow


def sweep_jobs(session: Session, number: int, amounts: Sequence[Amount]) -> list[Job]:
    """Return a job per amount of step `number` of the current recipe, each with a `SweepRow`."""
    recipe = session.recipe

    @cache
    def sweep() -> Sweep:
        from prune_gui.session.sweep import Sweep  # torch: slow to import

        return Sweep(session.resolver.copy(), recipe, number)

    def job(position: int, amount: Amount) -> Job:
        def work(monitor: Monitor) -> SweepRow:
            return sweep().row(amount, monitor)

        title = deferred("Trying amount {place} of {total}", place=position, total=len(amounts))
        return Job(title, work, long=True, spreads=True)

    return [job(position, amount) for position, amount in enumerate(amounts, start=1)]


def batch_jobs(
    recipe: Recipe,
    paths: Sequence[Path],
    folder: Path | None,
    options: OutputOptions,
) -> list[Job]:
    """Return jobs that apply a recipe to one checkpoint each; each returns a `BatchRow`.

    Results are written to `folder`; None writes nothing.
    """
    targets = outputs(paths, folder) if folder is not None else [None] * len(paths)

    def job(position: int, path: Path, out: Path | None) -> Job:
        def work(monitor: Monitor) -> BatchRow:
            return prune_file(recipe, path, out, options, monitor)

        title = deferred(
            "Pruning {name} ({place} of {total})", name=path.name, place=position, total=len(paths)
        )
        return Job(title, work, long=True, writes=out is not None, spreads=True)

    pairs = zip(paths, targets, strict=True)
    return [job(position, path, out) for position, (path, out) in enumerate(pairs, start=1)]
