"""Pictures and tables for elsewhere: to a file, or to the clipboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from PySide6.QtCore import QMimeData, QObject, QSaveFile
from PySide6.QtGui import QGuiApplication, QPalette

from prune_gui.errors import PruneGuiError
from prune_gui.gui.dialogs import questions
from prune_gui.gui.export.page import Page, image_of, png_of, svg_of
from prune_gui.gui.widgets.theme import LIGHT, colours, light_palette
from prune_gui.language import later, tr
from prune_gui.worker import Dropped, Event, Failed, Finished

if TYPE_CHECKING:
    from prune_gui.audit.table import Table
    from prune_gui.gui.commands import Commands
    from prune_gui.gui.views.view import ViewOf
    from prune_gui.gui.workbench import Workbench

    AnyView = ViewOf[Any]

LONGEST_NAME = 100
"""Characters of a suggested file name."""


class Tabular(Protocol):
    """What has a table to take away."""

    def table(self) -> Table | None:
        """Return it; None if there is none now."""


class Exporter:
    """Takes the pictures and the tables of panels to files and to the clipboard.

    Args:
        commands: of the window; knows its settings, and in which folder to begin.
        workbench: told of what is saved, and of what is not.
    """

    def __init__(self, commands: Commands, workbench: Workbench) -> None:
        self._commands = commands
        self._workbench = workbench

    def copy_picture(self, view: AnyView) -> None:
        """Put the picture of a view on the clipboard, as an image and as SVG."""

        def copy(page: Page) -> None:
            mime = QMimeData()
            mime.setImageData(image_of(page))
            mime.setData("image/svg+xml", svg_of(page))
            self._copy(mime, tr("Copied the picture"))

        self._with_page(view, copy)

    def save_picture(self, view: AnyView) -> None:
        """Save the picture of a view to a file that the user names."""
        name, _ = view.caption()
        stem = _file_name(f"{name} {view.accessibleName().lower()}")
        suggested = self._commands.folder / f"{stem}.png"
        wish = questions.ask_picture_target(view, suggested)
        if wish is None:
            return
        path, scale = wish

        def save(page: Page) -> None:
            svg = path.suffix.lower() == ".svg"
            content = svg_of(page) if svg else png_of(page, scale)
            self._save(later("Saving the picture"), path, content)

        self._with_page(view, save)

    def copy_table(self, panel: Tabular) -> None:
        """Put the table of a panel on the clipboard: cells for a spreadsheet, and CSV."""
        table = panel.table()
        if table is not None:
            mime = QMimeData()
            mime.setText(table.to_csv("\t"))
            mime.setData("text/csv", table.to_csv().encode())
            self._copy(mime, tr("Copied the table"))

    def save_table(self, panel: Tabular) -> None:
        """Save the table of a panel to a CSV file that the user names."""
        table = panel.table()
        if table is None:
            return
        suggested = self._commands.folder / f"{_file_name(table.title)}.csv"
        path = questions.ask_table_target(self._commands.window, suggested)
        if path is not None:
            self._save(later("Saving the table"), path, table.to_csv().encode())

    def _copy(self, mime: QMimeData, note: str) -> None:
        QGuiApplication.clipboard().setMimeData(mime)
        self._workbench.copied.emit(note)

    def _with_page(self, view: AnyView, use: Callable[[Page], None]) -> None:
        """Call `use` with the picture of a view, once it is in the colours that are wanted."""
        light = self._commands.settings.white_pictures and colours(view.palette()) is not LIGHT
        if light:
            LightRender(view, self._workbench, lambda: _use_page(view, use))
        else:
            _use_page(view, use)

    def _save(self, tried: str, path: Path, content: bytes) -> None:
        try:
            write(path, content)
        except PruneGuiError as error:
            self._workbench.fail(tried, error)
        else:
            self._workbench.saved.emit(path)


class LightRender(QObject):
    """Has a view draw itself in light colours, uses that, and lets it return to its own.

    If the drawing is cancelled, the view returns to its own colours and nothing else happens.

    Args:
        view: with a picture.
        workbench: of the view.
        use: called when the picture is there.
    """

    def __init__(self, view: AnyView, workbench: Workbench, use: Callable[[], None]) -> None:
        super().__init__(view)
        self._view = view
        self._use = use
        self._workbench = workbench
        self._drawn = False
        view.pictured.connect(self._pictured)
        workbench.bridge.happened.connect(self._follow)
        before = view.ticket
        view.setPalette(light_palette())  # the view sees the change, and looks again
        if view.ticket == before:  # it had this picture at hand
            self._drawn = True
            self._pictured()

    def _follow(self, event: Event) -> None:
        """Notice what becomes of the last look; one before it may still bring a dark picture."""
        if event.ticket != self._view.ticket:
            return
        if isinstance(event, Finished):
            self._drawn = True
        elif isinstance(event, Dropped | Failed):
            self._restore()

    def _pictured(self) -> None:
        if self._drawn:
            self._use()
            self._restore()

    def _restore(self) -> None:
        self._view.pictured.disconnect(self._pictured)
        self._workbench.bridge.happened.disconnect(self._follow)
        self._view.setPalette(QPalette())
        self.deleteLater()


def write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all; what is there is replaced.

    Raises:
        PruneGuiError: it cannot be written.
    """
    file = QSaveFile(str(path))
    written = file.open(QSaveFile.OpenModeFlag.WriteOnly) and file.write(content) == len(content)
    if not (written and file.commit()):
        reason = file.errorString()
        file.cancelWriting()
        raise PruneGuiError(
            tr("{path} was not written: {reason}. Save it elsewhere.", path=path, reason=reason)
        )


def _use_page(view: AnyView, use: Callable[[Page], None]) -> None:
    picture = view.picture()
    if picture is not None:
        use(Page(picture, *view.caption(), view.legend(), colours(view.palette())))


def _file_name(text: str) -> str:
    """Return a text with whatever a file name may not have left out."""
    text = "".join(sign if sign.isalnum() or sign in "._-" else "_" for sign in text)
    return text[-LONGEST_NAME:]
