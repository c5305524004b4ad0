"""The paths that the save dialog suggests, their disk space, and the files that they replace."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from prune_gui.checkpoint.formats import stem_and_suffix
from prune_gui.checkpoint.sharded.index import has_several_files
from prune_gui.errors import one_line
from prune_gui.language import tr, trn
from prune_gui.location import Location, uploads_folder
from prune_gui.resources import is_shipped

if TYPE_CHECKING:
    from prune_gui.checkpoint import Checkpoint


def pruned_path(checkpoint: Path) -> Path:
    """Return the default output path for a checkpoint; for shards, a folder beside theirs.

    For a remote checkpoint, and for the demo, it is in the home folder.
    """
    path = checkpoint.absolute()
    in_home = is_shipped(path) or Location.at(path).url is not None
    if has_several_files(path):
        return (Path.home() if in_home else path.parent.parent) / f"{path.parent.name}-pruned"
    stem, suffix = stem_and_suffix(path)
    return (Path.home() if in_home else path.parent) / f"{stem}-pruned{suffix}"


def model_folder(checkpoint: Checkpoint, ending: str) -> Path:
    """Return the suggested folder for a model, beside that of the input and named after it."""
    folder = checkpoint.path.absolute().parent
    around = Path.home() if checkpoint.url else folder.parent
    return around / f"{folder.name}-{ending}"


def free_space(path: Path) -> tuple[Path, int] | None:
    """Return the nearest existing parent folder of a path, and its free bytes; None if unknown.

    Of a remote path, it is the local folder where files are until they are uploaded.
    """
    if Location.at(path).url is not None:
        path = uploads_folder()
    try:
        folder = next(folder for folder in path.absolute().parents if folder.is_dir())
        return folder, shutil.disk_usage(folder).free
    except (OSError, StopIteration):
        return None  # saving reports the error


def is_occupied(path: Path) -> bool:
    """Return whether a path is an existing file or a folder that is not empty."""
    try:
        return path.is_file() or (path.is_dir() and any(path.iterdir()))
    except OSError:
        return False  # saving reports the error


def sure_to_replace(parent: QWidget, existing: Sequence[Path], opened: Path | None = None) -> bool:
    """Ask whether to replace files; warn if one of them is the open checkpoint."""
    button = QMessageBox.StandardButton
    box = QMessageBox(QMessageBox.Icon.Question, tr("Replace the file?"), "", parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    names = tr(" and ").join(one_line(path.name) for path in existing)
    box.setText(
        trn(
            "{names} already exists. Replace it?",
            "{names} already exist. Replace them?",
            len(existing),
            names=names,
        )
    )
    folder = one_line(str(existing[0].parent))
    if opened is not None and opened.exists() and any(path.samefile(opened) for path in existing):
        warning = tr("This file is the open checkpoint: its original weights will be lost.")
        folder = f"{folder}\n\n{warning}"
    box.setInformativeText(folder)
    replace = box.addButton(tr("&Replace"), QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(box.addButton(button.Cancel))
    box.exec()
    return box.clickedButton() is replace
