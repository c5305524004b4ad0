"""Writing the files of a report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prune_gui.audit.report.columns import csv
from prune_gui.audit.report.page import html_page
from prune_gui.audit.report.records import Report
from prune_gui.checkpoint import Checkpoint
from prune_gui.checkpoint.write.atomic import rehearse, replacing_together, write_bytes
from prune_gui.errors import CheckpointError
from prune_gui.language import tr


def check_targets(
    page: Path, table: Path | None, sources: Iterable[Checkpoint], *, overwrite: bool
) -> None:
    """Check that the files of a report can be written, before it is computed.

    Args:
        page: the HTML file.
        table: the CSV file, or None.
        sources: the open checkpoints, which the report must not replace.
        overwrite: whether existing files may be replaced.

    Raises:
        CheckpointError: a file may not or cannot be written.
    """
    targets = _targets(page, table)
    read = [path for source in sources for path in (source.path, *source.files)]
    for target in targets:
        if target.exists() and any(path.exists() and target.samefile(path) for path in read):
            raise CheckpointError(
                tr("{path} is a checkpoint of the report. Choose another name.", path=target)
            )
    if table is not None and page.absolute() == table.absolute():
        raise CheckpointError(tr("The page and the table need different names."))
    rehearse(replacing_together(dict.fromkeys(targets, 0), overwrite=overwrite))


def write(report: Report, page: Path, table: Path | None, *, overwrite: bool) -> None:
    """Write a report atomically: an error leaves both files as they were.

    Args:
        report: the report.
        page: the HTML file.
        table: the CSV file, or None.
        overwrite: whether existing files may be replaced.

    Raises:
        CheckpointError: a file may not or cannot be written.
    """
    contents = [html_page(report).encode()]
    if table is not None:
        contents.insert(0, csv(report).encode())
    sizes = dict(zip(_targets(page, table), map(len, contents), strict=True))
    with replacing_together(sizes, overwrite=overwrite) as drafts:
        for draft, content in zip(drafts, contents, strict=True):
            write_bytes(draft, content)


def _targets(page: Path, table: Path | None) -> list[Path]:
    return [page] if table is None else [table, page]
