"""The check boxes for the files that are copied beside the weights into a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from prune_gui.checkpoint.model_files import ModelFiles, find_model_files
from prune_gui.errors import one_line
from prune_gui.gui.dialogs.save_paths import model_folder
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.language import listed, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prune_gui.checkpoint import Checkpoint
    from prune_gui.recipe import Form, OutputPath

MAX_NAMES: Final = 3
"""Names that a check box shows; its tool tip has all."""


class ModelFilesBox(QWidget):
    """Asks which files beside the weights of the input are copied.

    Only a folder gets them: if the output is a file, checking the box asks for a folder.

    Signals:
        folder_wanted: (path) the user checks the box for a file; the path is that of a folder.
    """

    folder_wanted = Signal(str)

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        is_remote = checkpoint.url is not None  # the files are fetched when they are copied
        self._model = (
            ModelFiles(checkpoint.path) if is_remote else find_model_files(checkpoint.path)
        )
        self._checkpoint = checkpoint
        self._target: OutputPath | None = None
        self._wanted = True
        names = self._model.names
        self._files = QCheckBox(tr("Also save {names}", names=_short(names)))
        self._code = QCheckBox(tr("And the code of the model, if there is any"))
        if is_remote:
            self._files.setText(tr("Also save the config and tokenizer files"))
        self._files.setToolTip("\n".join(map(one_line, names)))
        self._files.clicked.connect(self._choose)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._files)
        layout.addWidget(self._code)
        self._files.setVisible(is_remote or bool(names))
        self._code.setVisible(is_remote or bool(self._model.code))

    @property
    def wants_files(self) -> bool:
        """Whether config, tokenizer and similar files are copied."""
        return self._files.isChecked()

    @property
    def wants_code(self) -> bool:
        """Whether files that programs run are copied, too."""
        return self._code.isEnabled() and self._code.isChecked()

    def refresh(self, target: OutputPath | None, form: Form) -> None:
        """Show what is copied into an output; masks are no model."""
        self._target = target
        is_folder = target is not None and target.is_folder
        self._files.setEnabled(target is not None and form != "masks")
        self._files.setChecked(self._wanted and is_folder and form != "masks")
        self._code.setEnabled(self._files.isChecked())
        if target is not None and self._model.code:
            self._name_code(target)

    def _name_code(self, target: OutputPath) -> None:
        from prune_gui.recipe.extra_files import free_names  # torch: slow to import

        names = free_names(self._model.code, target)
        self._code.setVisible(bool(names))
        self._code.setToolTip("\n".join(map(one_line, names)))
        self._code.setText(
            tr("And its code, without which it does not load: {names}", names=_short(names))
            if self._model.needs_code
            else tr("And its code: {names}", names=_short(names))
        )

    def _choose(self, wanted: bool) -> None:
        self._wanted = wanted
        self._code.setEnabled(wanted)
        if wanted and self._target is not None and not self._target.is_folder:
            self.folder_wanted.emit(str(model_folder(self._checkpoint, "pruned")))


def _short(names: Sequence[str]) -> str:
    return escape_mnemonics(listed(names, limit=MAX_NAMES))
