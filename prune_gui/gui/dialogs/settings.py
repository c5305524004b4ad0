"""The settings dialog; every change takes effect immediately."""

from __future__ import annotations

from typing import Final

from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QSpinBox,
    QWidget,
)

from prune_gui.gui.cluster import RunOnField
from prune_gui.gui.runtime.locale import SYSTEM, without_mnemonics
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.saving.save_dialog import FORMS
from prune_gui.gui.views.controls import Access, Choice, accessors
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
DEVICES: Final = {
    "automatic": deferred("Automatic: the graphics card if there is one"),
    "cpu": deferred("Processor"),
    "gpu": deferred("Graphics card"),
}
MEMORY_STEP_MB: Final = 64
"""Step of the spin box for the picture memory."""
FETCH_STEP_MB: Final = 100


class SettingsDialog(QDialog):
    """Shows the settings, and changes them."""

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preferences = preferences
        self.setWindowTitle(tr("Settings"))
        themes = {theme: tr(text) for theme, text in THEMES.items()}
        self.theme = _choice(themes)
        self.density = _choice({density: tr(text) for density, text in DENSITIES.items()})
        self.language = _choice({SYSTEM: themes["system"], **LANGUAGES})
        self.threads = _number(MAX_THREADS)
        self.threads.setSpecialValueText(tr("Automatic"))
        self.device = _choice({device: tr(text) for device, text in DEVICES.items()})
        self.run_on = RunOnField()
        self.picture_memory = _number(MAX_PICTURE_MEMORY_MB, " MB", MEMORY_STEP_MB)
        self.fetch_limit = _number(MAX_FETCH_LIMIT_MB, " MB", FETCH_STEP_MB)
        self.form = _choice(
            {str(form): without_mnemonics(tr(name)) for form, (name, _) in FORMS.items()}
        )
        self.keep_unsaved = QCheckBox(tr("Restore &unsaved steps after a crash"))
        self._access: dict[str, Access] = {}
        self._rows = QFormLayout(verticalSpacing=TIGHT_PX)
        for name, label, about in (
            ("theme", tr("&Appearance"), tr("Colours of the window and its pictures.")),
            ("density", tr("Text si&ze"), tr("Size of texts, and space around rows.")),
            ("language", tr("&Language"), tr("Takes effect at the next start.")),
            ("threads", tr("Worker &threads"), tr("Number of threads that compute at once.")),
            ("device", tr("Co&mpute on"), tr("Where corrections of kept weights are computed.")),
            ("run_on", tr("Run &on"), tr("Where jobs run that read many parameters.")),
            (
                "picture_memory",
                tr("Memory for &pictures"),
                tr("Size limit of the cache of drawn picture tiles."),
            ),
            (
                "fetch_limit",
                tr("Fetch without as&king"),
                tr("What may be fetched of remote checkpoints before you are asked."),
            ),
            (
                "form",
                tr("&Form when saving"),
                tr("The default in the dialog that saves a checkpoint."),
            ),
            ("keep_unsaved", "", tr("Keeps unsaved steps on disk.")),
        ):
            self._add(name, label, about)
        standard = QDialogButtonBox.StandardButton
        buttons = layouts.dialog_buttons(self, standard.RestoreDefaults | standard.Close)
        self.restore = buttons.button(standard.RestoreDefaults)
        self.restore.setText(tr("&Restore defaults"))
        self.restore.clicked.connect(self._restore)
        close = buttons.button(standard.Close)
        close.setText(tr("&Close"))
        for button in (self.restore, close):
            button.setAutoDefault(False)  # Return in a field accepts its text
        layouts.column(self._rows, layouts.STRETCH, buttons, of=self)
        self._follow()
        for name, (_, _, changed) in self._access.items():
            changed.connect(lambda _, name=name: self._take(name))
        preferences.changed.connect(self._follow)  # another window may change a setting

    def _add(self, name: str, text: str, about: str) -> None:
        field = getattr(self, name)
        self._access[name] = _accessors(field)
        focused = field.focusProxy() or field
        label = QLabel(text)
        if text:
            label.setBuddy(focused)
            focused.setAccessibleName(without_mnemonics(text))
        self._rows.addRow(label, field)
        focused.setAccessibleDescription(about)
        note = layouts.remark(about, wrapped=False)
        note.setContentsMargins(0, 0, 0, GAP_PX)
        self._rows.addRow("", note)

    def _follow(self) -> None:
        for name, (get, put, _) in self._access.items():
            value = getattr(self._preferences.now, name)
            if get() != (shown := value or 0 if name == "threads" else value):
                put(shown)  # else another address may be half typed

    def _take(self, name: str) -> None:
        value = self._access[name][0]()
        self._preferences.change(name, value or None if name == "threads" else value)

    def _restore(self) -> None:
        for name in self._access:
            self._preferences.change(name, getattr(Settings(), name))
        self.run_on.set_address("")


def _accessors(field: QWidget) -> Access:
    if isinstance(field, RunOnField):
        return lambda: field.accepted, field.set_address, field.changed
    return accessors(field)


def _choice(texts: dict[str, str]) -> Choice:
    return Choice("", [(text, value) for value, text in texts.items()])


def _number(maximum: int, suffix: str = "", step: int = 1) -> QSpinBox:
    """Return a spin box that signals no changes while the user types."""
    box = QSpinBox(maximum=maximum, suffix=suffix, singleStep=step)
    box.setKeyboardTracking(False)
    box.setGroupSeparatorShown(True)
    return box
