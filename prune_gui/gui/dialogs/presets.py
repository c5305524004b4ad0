"""Presets: stacks of steps that are kept under a name, and added to a stack at a click."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QAction, QDesktopServices
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from prune_gui.errors import PruneGuiError, one_line
from prune_gui.gui import formatting
from prune_gui.gui.dialogs.questions import agree
from prune_gui.gui.runtime.locale import literal
from prune_gui.gui.workbench import Workbench
from prune_gui.language import later, tr
from prune_gui.session.presets import Preset, Presets, shipped

TITLES: Final = {
    "global_magnitude": later("L1, global, 50 %"),
    "random_half": later("Random, global, 50 %"),
    "lamp_80": later("LAMP, 80 %"),
    "two_of_four": later("2:4 in linear layers"),
    "convolution_channels": later("A quarter of the channels of convolutions"),
    "three_rounds": later("Three rounds of 20 %"),
}
"""What to call the presets that come with the program, by their names."""
LONGEST: Final = 120
"""Characters of a line in the menu."""


class PresetMenu(QMenu):
    """The presets that come with the program, and those of the user: a click adds the steps.

    They are read anew whenever the menu opens. One that cannot be read says why, in grey.
    """

    def __init__(self, workbench: Workbench, presets: Presets, parent: QWidget) -> None:
        super().__init__(tr("Prese&ts"), parent)
        self._workbench = workbench
        self._presets = presets
        self.setToolTipsVisible(True)
        self.aboutToShow.connect(self.fill)

    def fill(self) -> list[QAction]:
        """List the presets there are now; return what can be chosen."""
        self.clear()
        self._list((tr(TITLES[preset.name]), preset) for preset in shipped())
        self.addSeparator()
        self._list((preset.name, preset) for preset in self._presets)
        return [action for action in self.actions() if action.isEnabled() and action.text()]

    def _list(self, presets: Iterable[tuple[str, Preset]]) -> None:
        for name, preset in presets:
            text = preset.problem or name
            action = self.addAction(literal(text, LONGEST))
            action.setEnabled(not preset.problem)
            action.setToolTip(about(preset))
            action.triggered.connect(partial(self._add, name, preset))

    def _add(self, name: str, preset: Preset) -> None:
        self._workbench.edit(lambda session: session.add_preset(name, preset.steps))


class PresetDialog(QDialog):
    """The user's own presets, to be renamed and removed.

    Args:
        workbench: which hears of what fails.
        presets: to show.
    """

    def __init__(self, workbench: Workbench, presets: Presets, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Presets"))
        self._workbench = workbench
        self._presets = presets
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Your presets"))
        self.list.setAlternatingRowColors(True)
        self.list.setWordWrap(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.currentItemChanged.connect(self._enable)
        self.list.itemDoubleClicked.connect(self._rename)
        self._note = QLabel()
        self._note.setWordWrap(True)
        self._note.setForegroundRole(self._note.palette().ColorRole.PlaceholderText)
        self.rename = QPushButton(tr("Re&name…"))
        self.rename.clicked.connect(self._rename)
        self.remove = QPushButton(tr("&Remove"))
        self.remove.clicked.connect(self._remove)
        self.folder = QPushButton(tr("Open &folder"))
        self.folder.setToolTip(tr("Presets are recipe files: copy them to share them"))
        self.folder.clicked.connect(self._open_folder)
        buttons = QHBoxLayout()
        for button in (self.rename, self.remove, self.folder):
            button.setAutoDefault(False)
            buttons.addWidget(button)
        self.rename.setDefault(True)  # for Enter on a preset
        buttons.addStretch()
        closing = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        closing.button(QDialogButtonBox.StandardButton.Close).setText(tr("&Close"))
        closing.rejected.connect(self.reject)
        buttons.addWidget(closing)
        layout = QVBoxLayout(self)
        layout.addWidget(self.list)
        layout.addWidget(self._note)
        layout.addLayout(buttons)
        self.resize(520, 320)
        self._show()

    def _show(self, current: str = "") -> None:
        self.list.clear()
        for preset in self._presets:
            text = preset.problem or preset.name
            item = QListWidgetItem(one_line(text, LONGEST), self.list)
            item.setToolTip(about(preset))
            item.setData(Qt.ItemDataRole.UserRole, preset)
            if preset.name == current:
                self.list.setCurrentItem(item)
        if self.list.count():
            self._note.setText(str(self._presets.folder))
        else:
            self._note.setText(tr("None yet: Prune > Save stack as a preset keeps one."))
        self._enable()

    def _enable(self) -> None:
        chosen = self._chosen() is not None
        self.rename.setEnabled(chosen)
        self.remove.setEnabled(chosen)
        self.folder.setEnabled(self._presets.folder.is_dir())

    def _chosen(self) -> Preset | None:
        item = self.list.currentItem()
        return item.data(Qt.ItemDataRole.UserRole) if item else None

    def _rename(self) -> None:
        preset = self._chosen()
        if preset is None:
            return
        try:
            name = ask_name(self, self._presets, tr("Rename the preset"), preset.name)
            if name is not None and name != preset.name:
                self._presets.rename(preset, name)
                self._show(name)
        except PruneGuiError as error:
            self._workbench.fail(later("Renaming the preset"), error)

    def _remove(self) -> None:
        preset = self._chosen()
        if preset is None or not _agree_to_remove(self, preset):
            return
        try:
            self._presets.remove(preset)
        except PruneGuiError as error:
            self._workbench.fail(later("Removing the preset"), error)
        self._show()

    def _open_folder(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(self._presets.folder))


def save_stack(workbench: Workbench, presets: Presets, window: QWidget) -> None:
    """Keep the steps of the stack as a preset, under a name that the user gives."""
    session = workbench.session
    if session is None:
        return
    try:
        name = ask_name(window, presets, tr("Save the stack as a preset"))
        if name is not None:
            presets.save(name, session.recipe)
    except PruneGuiError as error:
        workbench.fail(later("Saving the preset"), error)


def ask_name(parent: QWidget, presets: Presets, title: str, name: str = "") -> str | None:
    """Ask for the name of a preset until there is one that may be used.

    Args:
        parent: of the dialogs.
        presets: those there are.
        title: of the dialog.
        name: that it has so far, if any.

    Returns:
        The name; None if the user would rather not.

    Raises:
        PruneGuiError: the name is none.
    """
    given = name
    while True:
        given, agreed = QInputDialog.getText(parent, title, tr("Name:"), text=given)
        given = given.strip()
        if not agreed:
            return None
        if given == name or given not in presets or _agree_to_replace(parent, given):
            return given


def about(preset: Preset) -> str:
    """Return what a preset does, a line for each step; of a broken one, why it cannot be used."""
    if preset.problem:
        return one_line(preset.problem)
    return "\n".join(
        f"{formatting.title(step)}: {formatting.targets(step)}" for step in preset.steps
    )


def _agree_to_replace(parent: QWidget, name: str) -> bool:
    text = tr("There is a preset {name} already. Replace it?", name=name)
    return agree(parent, tr("Replace the preset?"), text, tr("&Replace"))


def _agree_to_remove(parent: QWidget, preset: Preset) -> bool:
    text = tr("Remove the preset {name}? Its file is deleted.", name=preset.name)
    return agree(parent, tr("Remove the preset?"), text, tr("&Remove"))
