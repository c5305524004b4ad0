"""The menu and the dialog of presets: named lists of steps that can be added to the stack."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from PySide6.QtCore import Qt, QUrl
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QInputDialog,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QWidget,
)

from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui import formatting
from prune_gui.gui.dialogs import questions
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.gui.widgets import layouts
from prune_gui.gui.workbench import Workbench
from prune_gui.language import deferred, tr
from prune_gui.session.presets import Preset, Presets, shipped

TITLES: Final = {
    "global_magnitude": deferred("L1, global, 50 %"),
    "random_half": deferred("Random, global, 50 %"),
    "lamp_80": deferred("LAMP, 80 %"),
    "two_of_four": deferred("2:4 in linear layers"),
    "convolution_channels": deferred("A quarter of the channels of convolutions"),
    "three_rounds": deferred("Three rounds of 20 %"),
}
"""Titles of the shipped presets, by name, to be translated."""
MAX_TITLE_CHARS: Final = 120
"""Limit of a line in the menu or in the list."""


def fill_menu(menu: QMenu, workbench: Workbench) -> None:
    """List the shipped presets and those of the user.

    An unreadable preset is a disabled action with the reason as its text.
    """

    def add(name: str, preset: Preset) -> None:
        label = tr("Add preset {name}", name=name)
        workbench.edit(lambda session: session.append(label, *preset.steps))

    def offer(presets: Iterable[tuple[str, Preset]]) -> None:
        for name, preset in presets:
            text = escape_mnemonics(preset.problem or name, MAX_TITLE_CHARS)
            action = menu.addAction(text, partial(add, name, preset))
            action.setEnabled(not preset.problem)
            action.setToolTip(about(preset))

    offer((tr(TITLES[preset.name]), preset) for preset in shipped())
    menu.addSeparator()
    offer((preset.name, preset) for preset in Presets())


class PresetDialog(QDialog):
    """The dialog to rename and remove the user's presets."""

    def __init__(self, workbench: Workbench, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Presets"))
        self._workbench = workbench
        self._presets = Presets()
        self.list = layouts.described(QListWidget(), tr("Your presets"))
        self.list.setAlternatingRowColors(True)
        self.list.setWordWrap(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.currentItemChanged.connect(self._enable)
        self.list.itemDoubleClicked.connect(self._rename)
        self._note = layouts.remark()
        self.rename = layouts.button(tr("Re&name…"), self._rename)
        self.remove = layouts.button(tr("&Remove"), self._remove)
        self.folder = layouts.button(
            tr("Open &folder"),
            lambda: questions.open_outside(self, QUrl.fromLocalFile(self._presets.folder)),
            tr("Presets are recipe files: copy them to share them"),
        )
        self.rename.setDefault(True)  # for Enter on a preset
        standard = QDialogButtonBox.StandardButton
        closing = layouts.dialog_buttons(self, standard.Close)
        closing.button(standard.Close).setText(tr("&Close"))
        buttons = layouts.row(self.rename, self.remove, self.folder, layouts.STRETCH, closing)
        layouts.column(self.list, self._note, buttons, of=self)
        self.resize(520, 320)
        self._show()

    def _show(self, current: str = "") -> None:
        self.list.clear()
        for preset in self._presets:
            text = preset.problem or preset.name
            item = QListWidgetItem(one_line(text, MAX_TITLE_CHARS), self.list)
            item.setToolTip(about(preset))
            item.setData(Qt.ItemDataRole.UserRole, preset)
            if preset.name == current:
                self.list.setCurrentItem(item)
        none_yet = tr("No presets yet. To save one, use Prune > Save stack as a preset.")
        self._note.setText(str(self._presets.folder) if self.list.count() else none_yet)
        self._enable()

    def _enable(self) -> None:
        for button in (self.rename, self.remove):
            button.setEnabled(self._current_preset() is not None)
        self.folder.setEnabled(self._presets.folder.is_dir())

    def _current_preset(self) -> Preset | None:
        item = self.list.currentItem()
        return item.data(Qt.ItemDataRole.UserRole) if item else None

    def _rename(self) -> None:
        preset = self._current_preset()
        if preset is None:
            return
        try:
            name = ask_name(self, tr("Rename the preset"), preset.name)
            if name is not None and name != preset.name:
                self._presets.rename(preset, name)
                self._show(name)
        except PruneGuiError as error:
            self._workbench.fail(deferred("Renaming the preset"), error)

    def _remove(self) -> None:
        preset = self._current_preset()
        if preset is None:
            return
        text = tr("Remove the preset {name}? Its file is deleted.", name=preset.name)
        if not questions.agree(self, tr("Remove the preset?"), one_line(text), tr("&Remove")):
            return
        try:
            self._presets.remove(preset)
        except PruneGuiError as error:
            self._workbench.fail(deferred("Removing the preset"), error)
        self._show()


def save_stack(workbench: Workbench, window: QWidget) -> None:
    """Save the steps of the stack as a preset, under a name that the user enters."""
    try:
        name = ask_name(window, tr("Save the stack as a preset"))
        if name is not None:
            Presets().save(name, workbench.opened.recipe)
    except PruneGuiError as error:
        workbench.fail(deferred("Saving the preset"), error)


def ask_name(parent: QWidget, title: str, name: str = "") -> str | None:
    """Ask for the name of a preset until it is free, or the user agrees to replace one."""
    typed = name
    while True:
        typed, accepted = QInputDialog.getText(parent, title, tr("Name:"), text=typed)
        typed = typed.strip()
        if not accepted:
            return None
        if typed == name or typed not in Presets():
            return typed
        text = tr("A preset {name} already exists. Replace it?", name=typed)
        if questions.agree(parent, tr("Replace the preset?"), one_line(text), tr("&Replace")):
            return typed


def about(preset: Preset) -> str:
    """Return a description of a preset, one line per step; for a broken one, the problem."""
    if preset.problem:
        return one_line(preset.problem)
    return "\n".join(
        f"{formatting.title(step)}: {formatting.targets(step)}" for step in preset.steps
    )
