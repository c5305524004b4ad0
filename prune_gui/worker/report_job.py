"""The job that writes a report on the stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prune_gui.language import deferred
from prune_gui.worker.engine import Job

if TYPE_CHECKING:
    from prune_gui.monitor import Monitor
    from prune_gui.session import Session


def report_job(
    session: Session, page: Path, table: Path | None, *, with_folders: bool, overwrite: bool
) -> Job:
    """Resolve the session's current recipe and write a report on it; the result is `page`.

    Args:
        session: the open session.
        page: the HTML file.
        table: the CSV file, or None.
        with_folders: whether the report names folders.
        overwrite: whether existing files may be replaced.
    """
    recipe = session.recipe

    def work(monitor: Monitor) -> Path:
        from prune_gui.report.collecting import report_on_stack  # torch: slow to import
        from prune_gui.report.writing import check_targets, write

        paths = check_targets(page, table, overwrite=overwrite)
        resolution = session.resolver.copy().resolve(recipe, monitor)
        report = report_on_stack(resolution, monitor, with_folders=with_folders)
        monitor.advance()
        write(report, *paths, overwrite=overwrite)
        return paths[0]

    title = deferred("Writing the report {name}", name=page.name)
    return Job(title, work, long=True, writes=True, spreads=True)
