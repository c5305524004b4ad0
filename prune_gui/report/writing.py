"""Writing the files of a report."""

from __future__ import annotations

from pathlib import Path

from prune_gui.checkpoint.write.documents import (
    PAGE_SUFFIXES,
    TABLE_SUFFIXES,
    check_documents,
    document_path,
    write_documents,
)
from prune_gui.report.columns import csv
from prune_gui.report.page import html_page
from prune_gui.report.records import Report


def check_targets(page: Path, table: Path | None, *, overwrite: bool) -> tuple[Path, Path | None]:
    """Return the paths of a report with their suffixes, which can be written; see `write`.

    Args:
        page: the HTML file.
        table: the CSV file, or None.
        overwrite: whether existing files may be replaced.

    Raises:
        CheckpointError: a file may not or cannot be written.
    """
    page = document_path(page, PAGE_SUFFIXES)
    table = table and document_path(table, TABLE_SUFFIXES)
    check_documents([page] if table is None else [table, page], overwrite=overwrite)
    return page, table


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
    contents = {page: html_page(report).encode()}
    if table is not None:
        contents = {table: csv(report).encode(), **contents}
    write_documents(contents, overwrite=overwrite)
