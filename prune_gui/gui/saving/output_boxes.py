"""The paths that the save dialog suggests and replaces, and what it saves beside the weights."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QWidget

from prune_gui.checkpoint.formats import stem_and_suffix
from prune_gui.checkpoint.model_files import ModelFiles, find_model_files
from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.errors import CheckpointError, one_line
from prune_gui.gui.dialogs.questions import agree
from prune_gui.gui.runtime.locale import escape_mnemonics
from prune_gui.gui.widgets import layouts
from prune_gui.language import listed, tr, trn
from prune_gui.location import Location, uploads_folder
from prune_gui.recipe.output import with_ending
from prune_gui.resources import is_shipped

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint
    from prune_gui.recipe import Form, OutputPath


MAX_NAMES: Final = 3
"""Names that a check box shows; its tool tip has all."""


def typed_path(text: str, folder: Path) -> Path:
    """Return the path that a user typed: without a folder, in this one; ~ is the home folder."""
    path = Path(text.strip())
    if path.parts[:1] == ("~",):
        path = Path.home().joinpath(*path.parts[1:])
    return folder / path


def pruned_path(checkpoint: Path, ending: str = "pruned") -> Path:
    """Return the default output path for a checkpoint; for shards, a folder beside theirs.

    For a remote checkpoint, and for the demo, it is in the home folder. It is never occupied.
    """
    path = checkpoint.absolute()
    if has_several_files(path):
        folder, stem, suffix = path.parent.parent, path.parent.name, ""
    else:
        folder, (stem, suffix) = path.parent, stem_and_suffix(path)
    in_home = is_shipped(path) or Location.at(path).url is not None
    return _free_path(Path.home() if in_home else folder, stem, suffix, ending=ending)


def model_folder(checkpoint: Checkpoint, ending: str) -> Path:
    """Return the suggested folder for a model, beside that of the input and named after it.

    Of a model of a pipeline that was opened as a whole, it is that of the pipeline.
    """
    folder = (checkpoint.pipeline or checkpoint.path.parent).absolute()
    return _free_path(Path.home() if checkpoint.url else folder.parent, folder.name, ending=ending)


def _free_path(folder: Path, stem: str, suffix: str = "", *, ending: str) -> Path:
    """Return the first path with an ending, or a number after it, that is not occupied."""
    while is_occupied(path := folder / f"{(stem := with_ending(stem, ending))}{suffix}"):
        pass
    return path


def suggested_path(checkpoint: Checkpoint, ending: str = "pruned") -> Path:
    """Return where to save a pruned checkpoint: of a pipeline that was opened, the whole of it."""
    if checkpoint.pipeline is not None:
        return model_folder(checkpoint, ending)
    return pruned_path(checkpoint.path, ending)


def free_space(path: Path) -> tuple[Path, int] | None:
    """Return the nearest existing parent folder of a path, and its free bytes; None if unknown.

    Of a remote path, it is the local folder where files are until they are uploaded.
    """
    if Location.at(path).url:
        path = uploads_folder()
    try:
        folder = next(folder for folder in path.absolute().parents if folder.is_dir())
        return folder, shutil.disk_usage(folder).free
    except (OSError, StopIteration):
        return None  # saving reports the error


def missing_folder(target: OutputPath | None) -> Path | None:
    """Return the folder that has to be made before an output is written; None if it exists."""
    if target is None or target.url is not None:
        return None
    folder = target.path.absolute().parent
    return None if folder.exists() else folder


def is_occupied(path: Path) -> bool:
    """Return whether a path is an existing file or a folder that is not empty."""
    try:
        return path.is_file() or (path.is_dir() and any(path.iterdir()))
    except OSError:
        return False  # saving reports the error


def sure_to_replace(parent: QWidget, existing: Sequence[Path], opened: Path) -> bool:
    """Ask whether to replace files; warn if one of them is the open checkpoint."""
    names = tr(" and ").join(one_line(path.name) for path in existing)
    text = trn(
        "{names} already exists. Replace it?",
        "{names} already exist. Replace them?",
        len(existing),
        names=names,
    )
    details = one_line(str(existing[0].parent))
    if opened.exists() and any(path.samefile(opened) for path in existing):
        warning = tr("This file is the open checkpoint: its weights will be overwritten.")
        details = f"{details}\n\n{warning}"
    return agree(parent, tr("Replace the file?"), text, tr("&Replace"), details=details)


class ModelFilesBox(QWidget):
    """Asks which files beside the weights of the input are copied; only a folder gets them."""

    folder_wanted = Signal(str)  # (path) the user checks the box while the output is a file

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        is_remote = checkpoint.url is not None  # the files are fetched when they are copied
        self._model = ModelFiles(checkpoint.path.parent)
        if not is_remote:
            with suppress(CheckpointError):  # saving says why they cannot be read
                self._model = find_model_files(checkpoint.path)
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
        layouts.column(self._files, self._code, of=self, margin=0)
        self._files.setVisible(is_remote or bool(names))
        self._code.setVisible(is_remote or bool(self._model.code))

    @property
    def wants_files(self) -> bool:
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
            folder = self._target.path.absolute().parent
            is_suggested = folder == pruned_path(self._checkpoint.path).parent
            if is_suggested or self._target.url is not None:
                folder = model_folder(self._checkpoint, "pruned")
            self.folder_wanted.emit(str(folder))


def _short(names: Sequence[str]) -> str:
    return escape_mnemonics(listed(names, limit=MAX_NAMES))
