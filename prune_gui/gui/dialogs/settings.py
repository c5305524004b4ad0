"""The settings dialog; every change takes effect immediately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QSpinBox,
    QWidget,
)

from prune_gui.gui.cluster import RunOnField
from prune_gui.gui.runtime.locale import SYSTEM, without_mnemonics
from prune_gui.gui.saving.save_dialog import FORMS
from prune_gui.gui.widgets import layouts
from prune_gui.gui.widgets.theme import GAP_PX, TIGHT_PX
from prune_gui.language import LANGUAGES, deferred, tr
from prune_gui.session import Settings
from prune_gui.session.settings import MAX_FETCH_LIMIT_MB, MAX_PICTURE_MEMORY_MB, MAX_THREADS

THEMES: Final = {
    "system": deferred("System default"),
    "light": deferred("Light"),
    "dark": deferred("Dark"),
}
DENSITIES: Final = {
    "compact": deferred("Compact"),
    "standard": deferred("Standard"),
    "large": deferred("Large"),
}
MEMORY_STEP_MB: Final = 64
"""Step of the spin box for the picture memory."""
FETCH_STEP_MB: Final = 100


class SettingsDialog(QDialog):
    """Shows the settings, and emits every change."""

    changed = Signal(str, object)  # (name, value) the user changed this attribute of `Settings`

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Settings"))
        themes = {theme: tr(text) for theme, text in THEMES.items()}
        self.theme = _choice(themes)
        self.density = _choice({density: tr(text) for density, text in DENSITIES.items()})
        self.language = _choice({SYSTEM: themes["system"], **LANGUAGES})
        self.threads = _number(0, MAX_THREADS)
        self.threads.setSpecialValueText(tr("Automatic"))
        self.run_on = RunOnField()
        self.picture_memory = _number(0, MAX_PICTURE_MEMORY_MB)
        self.picture_memory.setSuffix(" MB")
        self.picture_memory.setSingleStep(MEMORY_STEP_MB)
        self.fetch_limit = _number(0, MAX_FETCH_LIMIT_MB)
        self.fetch_limit.setSuffix(" MB")
        self.fetch_limit.setSingleStep(FETCH_STEP_MB)
        self.form = _choice(
            {form: without_mnemonics(tr(name)) for form, (name, _) in FORMS.items()}
        )
        self.white_pictures = QCheckBox(tr("Copy and save pictures on &white"))
        self.keep_unsaved = QCheckBox(tr("Restore &unsaved steps after a crash"))
        self._rows = QFormLayout()
        self._rows.setVerticalSpacing(TIGHT_PX)
        self._add(tr("&Appearance"), self.theme, tr("Colours of the window and its pictures."))
        self._add(tr("Text si&ze"), self.density, tr("Size of texts, and space around rows."))
        self._add(tr("&Language"), self.language, tr("Takes effect at the next start."))
        self._add(
            tr("Worker &threads"), self.threads, tr("Number of threads that compute at once.")
        )
        self._add(
            tr("Run &on"),
            self.run_on,
            tr("Where jobs run that read many parameters."),
        )
        self._add(
            tr("Memory for &pictures"),
            self.picture_memory,
            tr("Size limit of the cache of drawn picture tiles."),
        )
        self._add(
            tr("Fetch without as&king"),
            self.fetch_limit,
            tr("What may be fetched of remote checkpoints before you are asked."),
        )
        self._add(
            tr("&Form when saving"),
            self.form,
            tr("The default in the dialog that saves a checkpoint."),
        )
        self._add("", self.white_pictures, tr("With a light background, also in dark mode."))
        self._add("", self.keep_unsaved, tr("Keeps unsaved steps on disk."))
        standard = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(standard.RestoreDefaults | standard.Close)
        self.restore = buttons.button(standard.RestoreDefaults)
        self.restore.setText(tr("&Restore defaults"))
        self.restore.clicked.connect(self._restore)
        close = buttons.button(standard.Close)
        close.setText(tr("&Close"))
        for button in (self.restore, close):
            button.setAutoDefault(False)  # Return in a field accepts its text
        buttons.rejected.connect(self.reject)
        layouts.column(self._rows, layouts.STRETCH, buttons, of=self)
        self.show_settings(settings)
        self._connect()

    def _add(self, text: str, field: QWidget, about: str) -> None:
        focused = field.focusProxy() or field
        if text:
            label = QLabel(text)
            label.setBuddy(focused)
            focused.setAccessibleName(without_mnemonics(text))
            self._rows.addRow(label, field)
        else:
            self._rows.addRow("", field)
        focused.setAccessibleDescription(about)
        note = layouts.remark(about, wrapped=False)
        note.setContentsMargins(0, 0, 0, GAP_PX)
        self._rows.addRow("", note)

    def show_settings(self, settings: Settings) -> None:
        """Show other settings; emits `changed` for values that differ."""
        self.theme.setCurrentIndex(self.theme.findData(settings.theme))
        self.density.setCurrentIndex(self.density.findData(settings.density))
        self.language.setCurrentIndex(self.language.findData(settings.language))
        self.threads.setValue(settings.threads or 0)
        if settings.run_on != self.run_on.accepted:  # else another address may be half typed
            self.run_on.set_address(settings.run_on)
        self.picture_memory.setValue(settings.picture_memory)
        self.fetch_limit.setValue(settings.fetch_limit)
        self.form.setCurrentIndex(self.form.findData(settings.form))
        self.white_pictures.setChecked(settings.white_pictures)
        self.keep_unsaved.setChecked(settings.keep_unsaved)

    def _restore(self) -> None:
        self.show_settings(Settings())
        self.run_on.set_address("")

    def _connect(self) -> None:
        def emitter(name: str) -> Callable[[object], None]:
            return lambda value: self.changed.emit(name, value)

        boxes = {
            "theme": self.theme,
            "density": self.density,
            "language": self.language,
            "form": self.form,
        }
        for name, box in boxes.items():
            emit = emitter(name)
            box.currentIndexChanged.connect(lambda i, box=box, emit=emit: emit(box.itemData(i)))
        self.threads.valueChanged.connect(lambda count: self.changed.emit("threads", count or None))
        self.run_on.changed.connect(emitter("run_on"))
        self.picture_memory.valueChanged.connect(emitter("picture_memory"))
        self.fetch_limit.valueChanged.connect(emitter("fetch_limit"))
        self.white_pictures.toggled.connect(emitter("white_pictures"))
        self.keep_unsaved.toggled.connect(emitter("keep_unsaved"))


def _choice(texts: dict[str, str]) -> QComboBox:
    box = QComboBox()
    for value, text in texts.items():
        box.addItem(text, value)
    return box


def _number(minimum: int, maximum: int) -> QSpinBox:
    box = QSpinBox()
    box.setRange(minimum, maximum)
    box.setKeyboardTracking(False)  # no change signals while the user types
    return box
