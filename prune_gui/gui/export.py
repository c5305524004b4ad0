"""Export of pictures and tables, to a file or to the clipboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QMimeData,
    QObject,
    QPoint,
    QPointF,
    QRect,
    QSize,
    SignalInstance,
)
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QImage,
    QPainter,
    QPalette,
    QRegion,
    QTextDocument,
)
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from prune_gui.checkpoint.write.documents import (
    PICTURE_SUFFIXES,
    TABLE_SUFFIXES,
    document_path,
    write_documents,
)
from prune_gui.engine import Dropped, Event, Failed, Finished
from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui.dialogs import questions
from prune_gui.gui.widgets.theme import colours, light_palette
from prune_gui.language import deferred, tr
from prune_gui.raster.colours import LIGHT, Colours
from prune_gui.session.session import start_folder

if TYPE_CHECKING:
    from prune_gui.gui.runtime.preferences import Preferences
    from prune_gui.gui.workbench import Workbench
    from prune_gui.table import Table


MAX_NAME_CHARS = 100
"""Limit of a suggested file name."""
MARGIN: Final = 16
GAP_PX: Final = 8
DOTS_PER_INCH: Final = 96
MAX_TITLE_CHARS: Final = 300


class Tabular(Protocol):
    """An object that can be exported as a table."""

    def table(self) -> Table | None:
        """Return the table; None if there is none now."""


class PictureSource(Protocol):
    """A widget whose picture can be exported: a view, or a dialog with a picture."""

    ticket: int | None  # of the last job that computed the picture; None if there was none
    pictured: SignalInstance  # emitted when there is a new picture

    def picture(self) -> QWidget | None:
        """Return the widget that shows the picture; None while there is none."""

    def caption(self) -> tuple[str, str]:
        """Return the name of the subject, and a description of the picture."""

    def legend(self) -> str:
        """Return the legend as rich text, in the colours of the picture."""

    def accessibleName(self) -> str:  # noqa: N802 - as Qt has it
        """Return the name of the kind of picture."""

    def palette(self) -> QPalette: ...

    def setPalette(self, palette: QPalette, /) -> None:  # noqa: N802 - as Qt has it
        """Set the palette; the picture follows it at once, or with a job."""


class Exporter:
    """Exports the pictures and the tables of panels to files and to the clipboard."""

    def __init__(self, window: QWidget, workbench: Workbench, preferences: Preferences) -> None:
        self._window = window
        self._workbench = workbench
        self._preferences = preferences

    def copy_picture(self, view: PictureSource) -> None:
        def copy(page: Page) -> None:
            mime = QMimeData()
            mime.setImageData(image_of(page))
            mime.setData("image/svg+xml", svg_of(page))
            self._copy(mime, tr("Copied the picture"))

        self._with_page(view, copy)

    def save_picture(self, view: PictureSource) -> None:
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
        table = panel.table()
        if table is None:
            return
        suggested = start_folder(self._workbench.session) / f"{_file_name(table.title)}.csv"
        path = questions.ask_target(self._window, questions.SAVED_TABLE, suggested)
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


@dataclass(frozen=True, slots=True)
class Page:
    """A picture with the texts around it."""

    picture: QWidget  # the widget of the picture, in its final size
    title: str  # the subject of the picture; plain text
    subtitle: str  # what the picture shows of the subject; plain text
    legend: str  # rich text; "" for none
    colours: Colours  # colours of background and text. The widget has its own

    @property
    def size(self) -> QSize:
        """The size of the page in pixels, at a scale of 1."""
        foot = _height(self._text(self.legend)) if self.legend else 0
        picture = self.picture.size() + QSize(2 * MARGIN, 2 * MARGIN)
        return picture + QSize(0, _height(self._head) + foot)

    @property
    def _head(self) -> QTextDocument:
        texts = (escape(one_line(t, MAX_TITLE_CHARS)) for t in (self.title, self.subtitle))
        return self._text("<b>{}</b><br>{}".format(*texts))

    def _text(self, html: str) -> QTextDocument:
        document = QTextDocument()
        document.setDefaultFont(self.picture.font())
        document.setDocumentMargin(0)
        document.setHtml(f'<div style="color: {self.colours.foreground}">{html}</div>')
        document.setTextWidth(self.picture.width())
        return document

    def paint(self, painter: QPainter) -> None:
        painter.fillRect(QRect(QPoint(), self.size), QColor(self.colours.background))
        painter.translate(MARGIN, MARGIN)
        self._head.drawContents(painter)
        painter.translate(0, _height(self._head))
        # A plot overrides `render`, and would draw less.
        QWidget.render(self.picture, painter, QPoint(), QRegion(), QWidget.RenderFlag.DrawChildren)
        painter.translate(QPointF(0, self.picture.height() + GAP_PX))
        if self.legend:
            self._text(self.legend).drawContents(painter)


def _height(text: QTextDocument) -> int:
    """Return the height of a text with its gap to the picture, in pixels."""
    return round(text.size().height()) + GAP_PX


def image_of(page: Page, scale: int = 1) -> QImage:
    """Return a page as an image with `scale` times `scale` pixels per pixel of the screen."""
    image = QImage(page.size * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.setText("Title", one_line(page.title, MAX_TITLE_CHARS))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    page.paint(painter)
    painter.end()
    image.setDevicePixelRatio(1.0)
    return image


def png_of(page: Page, scale: int = 1) -> bytes:
    """Return a page as the content of a PNG file; see `image_of`."""
    content = QByteArray()
    buffer = QBuffer(content)
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    image_of(page, scale).save(buffer, "PNG")  # type: ignore[call-overload]  # it accepts only bytes
    return bytes(content.data())


def svg_of(page: Page) -> bytes:
    """Return a page as the content of an SVG file. Lines and text stay vector graphics."""
    content = QByteArray()
    buffer = QBuffer(content)
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)
    generator.setOutputDevice(buffer)
    generator.setResolution(DOTS_PER_INCH)
    generator.setSize(page.size)
    generator.setViewBox(QRect(QPoint(), page.size))
    generator.setTitle(one_line(page.title, MAX_TITLE_CHARS))
    generator.setDescription(one_line(page.subtitle, MAX_TITLE_CHARS))
    painter = QPainter(generator)
    page.paint(painter)
    painter.end()
    return bytes(content.data())
