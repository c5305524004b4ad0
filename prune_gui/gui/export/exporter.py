"""Export of the pictures and tables of views and panels, to a file or to the clipboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from PySide6.QtCore import QMimeData, QObject, SignalInstance
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import QWidget

from prune_gui.checkpoint.write.documents import (
    PICTURE_SUFFIXES,
    TABLE_SUFFIXES,
    document_path,
    write_documents,
)
from prune_gui.errors import PruneGuiError
from prune_gui.gui.dialogs import questions
from prune_gui.gui.export.page import Page, image_of, png_of, svg_of
from prune_gui.gui.widgets.theme import colours, light_palette
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import LIGHT
from prune_gui.session.start_folder import start_folder
from prune_gui.worker import Dropped, Event, Failed, Finished

if TYPE_CHECKING:
    from prune_gui.gui.runtime.preferences import Preferences
    from prune_gui.gui.workbench import Workbench
    from prune_gui.table import Table

MAX_NAME_CHARS = 100
"""Limit of a suggested file name."""


class Tabular(Protocol):
    """An object that can be exported as a table."""

    def table(self) -> Table | None:
        """Return the table; None if there is none now."""


class PictureSource(Protocol):
    """A widget whose picture can be exported: a view, or a dialog with a picture.

    Attributes:
        ticket: of the last job that computed the picture; None if there was none.
        pictured: emitted when there is a new picture.
    """

    ticket: int | None
    pictured: SignalInstance

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while there is none."""

    def caption(self) -> tuple[str, str]:
        """Return the name of the subject, and a description of the picture."""

    def legend(self) -> str:
        """Return the legend as rich text, in the colours of the picture."""

    def accessibleName(self) -> str:  # noqa: N802 - as Qt has it
        """Return the name of the kind of picture."""

    def palette(self) -> QPalette:
        """Return the palette."""

    def setPalette(self, palette: QPalette, /) -> None:  # noqa: N802 - as Qt has it
        """Set the palette; the picture follows it at once, or with a job."""


class Exporter:
    """Exports the pictures and the tables of panels to files and to the clipboard."""

    def __init__(self, window: QWidget, workbench: Workbench, preferences: Preferences) -> None:
        self._window = window
        self._workbench = workbench
        self._preferences = preferences

    def copy_picture(self, view: PictureSource) -> None:
        """Copy the picture of a view to the clipboard, as an image and as SVG."""

        def copy(page: Page) -> None:
            mime = QMimeData()
            mime.setImageData(image_of(page))
            mime.setData("image/svg+xml", svg_of(page))
            self._copy(mime, tr("Copied the picture"))

        self._with_page(view, copy)

    def save_picture(self, view: PictureSource) -> None:
        """Save the picture of a view to a file that the user chooses."""
        name, _ = view.caption()
        stem = _file_name(f"{name} {view.accessibleName().lower()}")
        suggested = start_folder(self._workbench.session) / f"{stem}.png"
        target = questions.ask_picture_target(self._window, suggested)
        if target is None:
            return
        path, scale = target

        def save(page: Page) -> None:
            svg = path.suffix.lower() == ".svg"
            content = svg_of(page) if svg else png_of(page, scale)
            self._save(deferred("Saving the picture"), path, PICTURE_SUFFIXES, content)

        self._with_page(view, save)

    def copy_table(self, panel: Tabular) -> None:
        """Copy the table of a panel to the clipboard, as tab-separated text and as CSV."""
        table = panel.table()
        if table is not None:
            mime = QMimeData()
            mime.setText(table.to_csv("\t"))
            mime.setData("text/csv", table.to_csv().encode())
            self._copy(mime, tr("Copied the table"))

    def save_table(self, panel: Tabular) -> None:
        """Save the table of a panel to a CSV file that the user chooses."""
        table = panel.table()
        if table is None:
            return
        suggested = start_folder(self._workbench.session) / f"{_file_name(table.title)}.csv"
        path = questions.ask_table_target(self._window, suggested)
        if path is not None:
            content = table.to_csv().encode()
            self._save(deferred("Saving the table"), path, TABLE_SUFFIXES, content)

    def _copy(self, mime: QMimeData, note: str) -> None:
        QGuiApplication.clipboard().setMimeData(mime)
        self._workbench.noted.emit(note)

    def _with_page(self, view: PictureSource, use: Callable[[Page], None]) -> None:
        """Call `use` with the page of a view, after rendering it in light colours if needed."""
        is_dark = colours(view.palette()) is not LIGHT
        if is_dark and self._preferences.now.white_pictures:
            LightRender(view, self._workbench, lambda: _use_page(view, use))
        else:
            _use_page(view, use)

    def _save(self, tried: str, path: Path, suffixes: Sequence[str], content: bytes) -> None:
        try:
            target = document_path(path, suffixes)
            write_documents({target: content}, overwrite=target == path)  # else nobody was asked
        except PruneGuiError as error:
            self._workbench.fail(tried, error)
        else:
            self._workbench.saved.emit(target)


class LightRender(QObject):
    """Renders a view in light colours, calls a function, and restores the colours of the view.

    If the rendering is cancelled or fails, only the colours are restored.
    """

    def __init__(self, view: PictureSource, workbench: Workbench, use: Callable[[], None]) -> None:
        super().__init__(cast("QWidget", view))
        self._view = view
        self._use = use
        self._workbench = workbench
        self._rendered = False
        view.pictured.connect(self._on_pictured)
        workbench.bridge.happened.connect(self._follow)
        old_ticket = view.ticket
        view.setPalette(light_palette())  # the view handles the change, and renders again
        if view.ticket == old_ticket:  # the view had this picture in its cache
            self._rendered = True
            self._on_pictured()

    def _follow(self, event: Event) -> None:
        """Handle events of the latest render job; earlier jobs may still finish dark pictures."""
        if event.ticket != self._view.ticket:
            return
        if isinstance(event, Finished):
            self._rendered = True
        elif isinstance(event, Dropped | Failed):
            self._restore()

    def _on_pictured(self) -> None:
        if self._rendered:
            self._use()
            self._restore()

    def _restore(self) -> None:
        self._view.pictured.disconnect(self._on_pictured)
        self._workbench.bridge.happened.disconnect(self._follow)
        self._view.setPalette(QPalette())
        self.deleteLater()


def _use_page(view: PictureSource, use: Callable[[Page], None]) -> None:
    picture = view.picture()
    if picture is not None:
        use(Page(picture, *view.caption(), view.legend(), colours(view.palette())))


def _file_name(text: str) -> str:
    """Return a text as a file name: special characters become "_", and only the end is kept."""
    text = "".join(char if char.isalnum() or char in "._-" else "_" for char in text)
    return text[-MAX_NAME_CHARS:]
