"""Export of pictures and tables, to a file or to the clipboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from prune_gui.checkpoint.write.documents import TABLE_SUFFIXES, document_path, write_documents
from prune_gui.errors import PruneGuiError
from prune_gui.gui.dialogs import questions
from prune_gui.gui.widgets.frames import deleted_on_close
from prune_gui.language import deferred, tr
from prune_gui.session.session import start_folder

if TYPE_CHECKING:
    from prune_gui.gui.figures.picture import PictureSource
    from prune_gui.gui.runtime.preferences import Preferences
    from prune_gui.gui.workbench import Workbench
    from prune_gui.table import Table


class Tabular(Protocol):
    """An object that can be exported as a table."""

    def table(self) -> Table | None:
        """Return the table; None if there is none now."""


@dataclass(eq=False)
class Exporter:
    """Exports the pictures and the tables of panels to files and to the clipboard.

    `_curves` returns what shows the results of the evaluator; None without any.
    """

    _window: QWidget
    _workbench: Workbench
    _preferences: Preferences
    _curves: Callable[[], PictureSource | None]

    def copy_picture(self, source: PictureSource) -> None:
        # not for the first paint
        from prune_gui.gui.figures.figure import Figure, clipboard_data, sheets_to_copy
        from prune_gui.gui.figures.picture import is_dark, picture_panel

        if source.picture() is not None:
            settings = self._preferences.now.figure.model_copy(update={"dark": is_dark(source)})
            figure = Figure([picture_panel(source)], source.caption()[0], settings)
            self._workbench.bridge.run_job(
                "figure",
                partial(sheets_to_copy, figure),
                lambda sheets: self._copy(clipboard_data(*sheets), tr("Copied the picture")),
            )

    def export_figure(self, source: PictureSource, layout: str | None = None) -> None:
        """Show the dialog that exports figures, with the layout of the last time if not given."""
        from prune_gui.gui.figures.dialog import FigureDialog  # not for the first paint

        settings = self._preferences.now.figure
        if layout is not None:
            settings = settings.model_copy(update={"layout": layout})
        dialog = FigureDialog(self._workbench, source, self._curves(), settings, source.window())
        dialog.closed.connect(lambda now: self._preferences.change("figure", now))
        deleted_on_close(dialog).open()

    def copy_table(self, panel: Tabular) -> None:
        """Copy the table of a panel to the clipboard, as tab-separated text and as CSV."""
        table = panel.table()
        if table is not None:
            mime = QMimeData()
            mime.setText(table.to_csv("\t"))
            mime.setData("text/csv", table.to_csv().encode())
            self._copy(mime, tr("Copied the table"))

    def save_table(self, panel: Tabular) -> None:
        from prune_gui.gui.figures.data import file_name  # not for the first paint

        table = panel.table()
        if table is None:
            return
        suggested = start_folder(self._workbench.session) / f"{file_name(table.title)}.csv"
        path = questions.ask_target(self._window, questions.SAVED_TABLE, suggested)
        if path is None:
            return
        try:
            target = document_path(path, TABLE_SUFFIXES)
            content = {target: table.to_csv().encode()}
            write_documents(content, overwrite=target == path)  # else nobody was asked
        except PruneGuiError as error:
            self._workbench.fail(deferred("Saving the table"), error)
        else:
            self._workbench.saved.emit(target)

    def _copy(self, mime: QMimeData, note: str) -> None:
        QGuiApplication.clipboard().setMimeData(mime)
        self._workbench.noted.emit(note)
