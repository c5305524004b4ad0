"""The dialog that exports figures, with a live preview."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from PySide6.QtCore import QMargins, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QPalette, QPixmap, QResizeEvent, QStandardItemModel
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QLabel,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QWidget,
)
from shiboken6 import isValid

from prune_gui.checkpoint.write.documents import document_path, write_documents
from prune_gui.engine import Job
from prune_gui.errors import PruneGuiError
from prune_gui.gui.dialogs import questions
from prune_gui.gui.figures.data import FigureData, figure_data, file_name, layout_of
from prune_gui.gui.figures.figure import (
    CURVES,
    CURVES_ASPECT,
    LAYOUTS,
    MASK,
    PAGE,
    PICTURE,
    POINTS_PER_INCH,
    Figure,
    Sheet,
    clipboard_data,
    default_title,
    panels_of,
    sheets_to_copy,
)
from prune_gui.gui.figures.picture import Cover, PictureSource, is_dark, picture_panel
from prune_gui.gui.views.controls import Choice, accessors
from prune_gui.gui.views.plot import dim_names_of, layout_labels
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.message import Message
from prune_gui.gui.widgets.theme import WIDE_PX, theme_palette
from prune_gui.language import deferred, tr
from prune_gui.number_formats import short_bytes
from prune_gui.raster.colours import DARK, LIGHT
from prune_gui.raster.parameter_layouts import KernelLayout
from prune_gui.session.session import start_folder
from prune_gui.session.settings import FigureSettings
from prune_gui.session.subjects import ModelSubject, Subject

if TYPE_CHECKING:
    from prune_gui.gui.figures.panels import Panel
    from prune_gui.gui.workbench import Workbench
    from prune_gui.monitor import Monitor
    from prune_gui.session.changes import Changes

SETTLE_MS: Final = 40
COVER_MS: Final = 300
"""Time in which a view gets its own colours again."""
PAPER_EDGES: Final = QMargins(WIDE_PX, WIDE_PX, WIDE_PX, WIDE_PX)
PREVIEW_PX: Final = QSize(320, 300)
MAX_SCALE: Final = 2.0  # pixels of the preview per point
LEGIBLE_SCALE: Final = 1.1  # of a figure that is higher than the preview
SHARE_OF_WINDOW: Final = 0.75
MM_PER_INCH: Final = 25.4
MAX_PIXELS: Final = 100_000_000
SIZES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (deferred("One column"), {"unit": "mm", "width": 85.0, "height": 0.0, "text_pt": 8}),
    (deferred("Two columns"), {"unit": "mm", "width": 180.0, "height": 0.0, "text_pt": 8}),
    (
        deferred("Slide"),
        {"unit": "px", "width": 1920.0, "height": 1080.0, "dpi": 144, "text_pt": 14},
    ),
)
"""Sizes to choose from, and the settings that each changes."""


class FigureDialog(QDialog):
    """Chooses what a figure shows and how, and writes it."""

    closed = Signal(object)  # (settings) the settings to begin with next time

    def __init__(
        self,
        workbench: Workbench,
        source: PictureSource,
        curves: PictureSource | None,
        settings: FigureSettings,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Export figure"))
        self._workbench, self._source, self._curves = workbench, source, curves
        self._covers: dict[PictureSource, Cover] = {}
        self._data: FigureData | None = None
        self._is_showing = False
        self.settings = settings
        self._timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._timer.timeout.connect(self._draw)
        self.preview = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self._scroll = QScrollArea(widgetResizable=True)
        self._scroll.setWidget(self.preview)
        self._scroll.setBackgroundRole(QPalette.ColorRole.PlaceholderText)  # grey in both themes
        self._scroll.setMinimumSize(PREVIEW_PX)
        self._scroll.setAccessibleName(tr("Preview"))
        sizes = [(tr(text), number) for number, (text, _) in enumerate(SIZES)]
        self.sizes = Choice(tr("Size"), [*sizes, (tr("Other"), len(SIZES))], self._take_size)
        high = QDoubleSpinBox(maximum=20_000, decimals=1)
        high.setSpecialValueText(tr("auto"))
        formats = [(each.suffix.upper(), each.suffix) for each in questions.FIGURES]
        self.fields: dict[str, QWidget] = {
            "layout": Choice(tr("Figure")),
            "width": QDoubleSpinBox(minimum=1, maximum=20_000, decimals=1),
            "height": high,
            "unit": Choice(tr("Unit"), [("mm", "mm"), ("px", "px")]),
            "dpi": QSpinBox(minimum=50, maximum=1200, singleStep=50, suffix=tr(" dpi")),
            "text_pt": QSpinBox(minimum=6, maximum=32, suffix=tr(" pt")),
            "dark": Choice(tr("Colours"), [(tr("Light"), False), (tr("Dark"), True)]),
            "format": Choice(tr("Format"), formats),
            "title": QCheckBox(tr("T&itle")),
            "legend": QCheckBox(tr("&Legend")),
        }
        layout, width, height, unit, dpi, text, dark, form, title, legend = self.fields.values()
        cross, lengths = QLabel("\N{MULTIPLICATION SIGN}"), QWidget()
        layouts.row((width, 1), cross, (height, 1), unit, of=lengths, margin=0)
        self.title = layouts.described(QLineEdit(), tr("Text of the title"))
        rows = layouts.form(
            (tr("&Figure"), layout),
            (tr("&Size"), self.sizes),
            ("", lengths),
            (tr("&Resolution"), dpi),
            (tr("&Text"), text),
            (tr("C&olours"), dark),
            (tr("For&mat"), form),
            title,
            self.title,
            legend,
        )
        self.facts, self.note = QLabel(), Message()
        buttons = layouts.dialog_buttons(self, QDialogButtonBox.StandardButton.Close)
        buttons.button(QDialogButtonBox.StandardButton.Close).setAutoDefault(False)
        self.export = QPushButton(tr("&Export…"), default=True)
        self.export.clicked.connect(self._export)
        self.copy = layouts.button(tr("&Copy"), self._copy)
        for button in (self.export, self.copy):
            buttons.addButton(button, QDialogButtonBox.ButtonRole.ActionRole)
        controls = layouts.column(rows, layouts.STRETCH, self.facts, self.note)
        content = layouts.row((self._scroll, 1), controls, gap=WIDE_PX)
        layouts.column((content, 1), buttons, of=self)
        self._access = {name: accessors(field) for name, field in self.fields.items()}
        for _, _, changed in self._access.values():
            changed.connect(self._read)
        self.title.textChanged.connect(self._timer.start)
        for each in filter(None, (source, curves)):
            each.pictured.connect(self._timer.start)
        workbench.changed.connect(self._on_changed)
        self.resize(parent.size() * SHARE_OF_WINDOW)
        self._show()
        self._load()

    def _show(self) -> None:
        self._is_showing = True
        panels, box = self._panels(), self.fields["layout"]
        assert isinstance(box, Choice)
        shown = [each for each in LAYOUTS if each in panels]
        box.offer([(tr(LAYOUTS[each]), each) for each in LAYOUTS if each in (*shown, CURVES)])
        has_curves, at = CURVES in panels, box.findData(CURVES)
        model = box.model()
        assert isinstance(model, QStandardItemModel)
        model.item(at).setEnabled(has_curves)
        reason = "" if has_curves else tr("Run a sweep or a search in Evaluate first")
        box.setItemData(at, reason, Qt.ItemDataRole.ToolTipRole)
        for name in ("width", "height"):
            length = self.fields[name]
            assert isinstance(length, QDoubleSpinBox)
            length.setDecimals(0 if self.settings.unit == "px" else 1)
        for name, (_, put, _) in self._access.items():
            put(getattr(self.settings, name))
        if self._layout not in shown and shown:
            box.choose(shown[0])
        sizes = [self.settings.model_copy(update=size) == self.settings for _, size in SIZES]
        self.sizes.choose(sizes.index(True) if True in sizes else len(SIZES))
        self.title.setEnabled(self.settings.title)
        self._is_showing = False
        self._timer.start()

    def _read(self) -> None:
        """Take the settings from the fields; lengths are converted when the unit changes."""
        if self._is_showing:
            return
        before = self.settings
        now = FigureSettings(**{name: get() for name, (get, _, _) in self._access.items()})
        factor = now.per_inch / before.per_inch if now.unit != before.unit else 1.0
        lengths = {"width": now.width * factor, "height": now.height * factor}
        self.settings = now.model_copy(update=lengths)
        self._show()

    def _take_size(self) -> None:
        if self.sizes.value < len(SIZES):
            self.settings = self.settings.model_copy(update=SIZES[self.sizes.value][1])
            self._show()

    @property
    def _layout(self) -> str | None:
        value: str | None = self._access["layout"][0]()
        return value

    def _load(self) -> None:
        workbench = self._workbench
        model, chosen, resolved = workbench.model_subject, workbench.subject, workbench.resolved
        if not isinstance(model, ModelSubject) or resolved is None:
            return
        before, axes, subject = resolved.before, ("", ""), None
        if isinstance(chosen, Subject) and chosen.resolution is model.resolution:
            subject, names = chosen, dim_names_of(workbench, chosen)
            dims = (0, 1) if KernelLayout.of(chosen.info.shape) else None
            axes = layout_labels(names, layout_of(chosen.info.shape), dims)
            original = workbench.comparison.reference_masks
            found = original.checkpoint.tensors.get(chosen.name) if original else None
            if original is not None and found is not None and found.shape == chosen.info.shape:
                before = original

        def then(data: FigureData) -> None:
            if isValid(self):
                self._data = data
                self._show()

        compute = partial(figure_data, model, before, subject, axes)
        job = Job(deferred("Drawing"), lambda _: compute(), lane="figure", long=True)
        workbench.bridge.run(job, then)

    def _panels(self) -> dict[str, list[Panel]]:
        ready: dict[str, Panel] = {}
        if self._data is not None:
            ready = panels_of(self._data, DARK if self.settings.dark else LIGHT)
        if self._curves is not None and self._curves.picture() is not None:
            ready[CURVES] = picture_panel(self._curves, CURVES_ASPECT)
        found = {layout: [panel] for layout, panel in ready.items()}
        if len(ready) > 1:
            found[PAGE] = [ready[layout] for layout in LAYOUTS if layout in ready]
        if self._source.picture() is not None:
            found[PICTURE] = [picture_panel(self._source)]
        return found

    def _figure(self) -> Figure | None:
        layout = self._layout
        panels = self._panels().get(layout or "")
        if panels is None:
            return None
        default = self._source.caption()[0]
        if layout == MASK:
            default = panels[0].title
        elif layout == CURVES and self._curves is not None:
            default = self._curves.caption()[0]  # curves may start from the file
        elif layout != PICTURE and self._data is not None:
            default = default_title(self._data)
        self.title.setPlaceholderText(default)
        title = (self.title.text() or default) if self.settings.title else ""
        return Figure(panels, title, self.settings)

    @property
    def _picture(self) -> PictureSource | None:
        """The picture of another widget that the figure contains; None if there is none."""
        shown = {PICTURE: self._source, CURVES: self._curves, PAGE: self._curves}
        return shown.get(self._layout or "")

    def _draw(self) -> None:
        """Draw the preview; a picture is drawn again when it has the colours of the figure."""
        picture = self._picture
        if picture is not None and is_dark(picture) != self.settings.dark:
            if picture not in self._covers:
                assert isinstance(picture, QWidget)
                self._covers[picture] = Cover(picture)
            picture.setPalette(theme_palette(dark=self.settings.dark))
        self._allow(on=picture is None or picture.is_drawn())
        figure = self._figure()
        if figure is None:
            return
        room = self._scroll.viewport().size().shrunkBy(PAPER_EDGES)
        ratio = self.devicePixelRatioF()

        def work(monitor: Monitor) -> Sheet:
            across, down = (
                room.width() / figure.size.width(),
                room.height() / figure.size.height(),
            )
            scale = min(across, max(down, LEGIBLE_SCALE), MAX_SCALE)
            return Sheet(figure, "png", scale * ratio * POINTS_PER_INCH, monitor)

        def then(sheet: Sheet) -> None:
            if isValid(self):
                image = sheet.finish().image
                image.setDevicePixelRatio(ratio)
                self.preview.setPixmap(QPixmap.fromImage(image))
                self._describe(figure)

        self._workbench.bridge.run_job("figure.preview", work, then)

    def _describe(self, figure: Figure) -> None:
        pixels = figure.pixel_size(figure.settings.dpi)
        paper = (figure.size * MM_PER_INCH / POINTS_PER_INCH).toSize()
        facts = tr(
            "{width} \N{MULTIPLICATION SIGN} {height} mm, "
            "{across:,} \N{MULTIPLICATION SIGN} {down:,} px",
            width=paper.width(),
            height=paper.height(),
            across=pixels.width(),
            down=pixels.height(),
        )
        is_large = pixels.width() * pixels.height() > MAX_PIXELS  # the clipboard gets an image
        self.facts.setText(tr("Too many pixels: choose a lower resolution.") if is_large else facts)
        self._allow(on=not is_large and (self._picture is None or self._picture.is_drawn()))

    def _allow(self, *, on: bool) -> None:
        """Let the user export the figure: not while a part of it has the colours of the window."""
        for button in (self.export, self.copy):
            button.setEnabled(on)

    def _copy(self) -> None:
        if (figure := self._figure()) is None:
            return

        def then(sheets: tuple[Sheet, Sheet]) -> None:
            QGuiApplication.clipboard().setMimeData(clipboard_data(*sheets))
            if isValid(self):
                self.note.say(tr("Copied the picture"), warning=False)

        self._workbench.bridge.run_job("figure", partial(sheets_to_copy, figure), then)

    def _export(self) -> None:
        figure, session = self._figure(), self._workbench.opened
        if figure is None:
            return
        layout, suffix = self._layout, self.settings.format
        name = f"{session.checkpoint.path.stem} {layout}"
        if layout == PICTURE:
            name = f"{self._source.caption()[0]} {self._source.accessibleName().lower()}"
        suggested = start_folder(session) / f"{file_name(name)}.{suffix}"
        question = next(each for each in questions.FIGURES if each.suffix == suffix)
        path = questions.ask_target(self, question, suggested)
        if path is None:
            return
        try:
            target = document_path(path, (f".{suffix}",))
        except PruneGuiError as error:
            self.note.say(str(error))
            return
        bridge = self._workbench.bridge

        def write(sheet: Sheet) -> int:
            content = sheet.content()
            write_documents({target: content}, overwrite=target == path)  # else nobody was asked
            return len(content)

        def drawn(sheet: Sheet) -> None:
            sheet.finish()
            job = Job(title, lambda _: write(sheet), writes=True)
            bridge.run(job, written, failed)

        def written(size: int) -> None:
            self._workbench.saved.emit(target)
            if isValid(self):
                text = tr("Saved {name}, {size}", name=target.name, size=short_bytes(size))
                self.note.say(text, warning=False)

        def failed(error: BaseException) -> None:
            if isinstance(error, PruneGuiError) and isValid(self):
                self.note.say(str(error))
            else:
                self._workbench.failed.emit(tr("Exporting the figure"), error)

        title, dpi = deferred("Exporting the figure"), figure.settings.dpi
        bridge.run(Job(title, lambda monitor: Sheet(figure, suffix, dpi, monitor)), drawn, failed)

    def _on_changed(self, changes: Changes) -> None:
        if changes.file:
            self.close()
        elif changes.resolution or changes.zeros:
            self._load()

    def done(self, result: int) -> None:
        self._timer.stop()
        for source, cover in self._covers.items():
            source.setPalette(QPalette())
            QTimer.singleShot(COVER_MS, cover, cover.deleteLater)
        self.closed.emit(self.settings)
        super().done(result)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self._timer.start()
