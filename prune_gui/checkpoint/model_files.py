"""The files beside the weights of a model that programs need to load it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.folder import is_weight_file, visible_files
from prune_gui.checkpoint.sharded.index import allowed_folders
from prune_gui.errors import CheckpointError
from prune_gui.regular_files import read_regular

SUFFIXES: Final = frozenset(
    {".bpe", ".codes", ".jinja", ".json", ".model", ".spm", ".tiktoken", ".txt", ".vocab"}
)
"""Of config files, tokenizers and chat templates."""
LICENCES: Final = frozenset({"LICENSE", "LICENCE", "NOTICE", "COPYING"})
CODE_SUFFIXES: Final = frozenset(
    {
        ".bash", ".bat", ".cmd", ".com", ".desktop", ".dll", ".dylib", ".exe", ".fish",
        ".ipynb", ".jar", ".js", ".lnk", ".mjs", ".msi", ".php", ".pl", ".ps1",
        ".py", ".pyc", ".pyd", ".pyw", ".pyz", ".rb", ".scr", ".sh", ".so",
        ".vbs", ".wsf", ".zsh",
    }
)  # fmt: skip
"""Of files that programs run."""
MARKERS: Final = (
    *("adapter_config.json", "config.json", "modules.json", "open_clip_config.json", "params.json"),
    *("preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"),
)
"""Files that tell that a folder is that of a model, and not one with all kinds of files."""
MODULE_FOLDER: Final = re.compile(r"\d+_\w+", re.ASCII)
"""The name of an inner folder of sentence-transformers, which may have weights of its own."""
CODE_IN_CONFIG: Final = b'"auto_map"'
"""The key in a config of transformers that names the classes in Python files of the model."""
MAX_FILE_BYTES: Final = 64 << 20
MAX_FILES: Final = 100
MAX_NBYTES: Final = 256 << 20
"""The limit for all files together, whose contents are in memory."""
MAX_INNER_FILE_BYTES: Final = 1 << 20
MAX_INNER_FILES: Final = 10
"""The limits for a folder beside the checkpoint; one with more is left out."""


def is_model_file_name(name: str) -> bool:
    """Return whether a file with this name is copied if it is small, or is code."""
    path = Path(name)
    is_needed = path.suffix.lower() in SUFFIXES or path.stem.upper() in LICENCES
    return (is_needed and not is_weight_file(path)) or is_code_name(name)


def is_code_name(name: str) -> bool:
    """Return whether programs run a file with this name."""
    path = Path(name.lower())
    return path.suffix in CODE_SUFFIXES or ".so" in path.suffixes


def is_inner_folder_name(name: str) -> bool:
    """Return whether a folder with this name is copied if it has nothing but small files."""
    return not name.startswith((".", "__"))


def max_inner_nbytes(folder: str, file: str) -> int:
    """Return the limit for a file in an inner folder, by both names; -1 if it is not copied."""
    if is_model_file_name(file):
        return MAX_INNER_FILE_BYTES
    return MAX_FILE_BYTES if is_module_folder_name(folder) and is_weight_file(Path(file)) else -1


def is_module_folder_name(name: str) -> bool:
    """Return whether an inner folder may have weights that belong to the model."""
    return MODULE_FOLDER.fullmatch(name) is not None


def is_model_folder(folder: Path) -> bool:
    """Return whether a folder has files that only that of a model has."""
    with suppress(OSError):
        return _is_model_folder(folder)
    return False


def _is_model_folder(folder: Path) -> bool:
    return any((folder / name).is_file() for name in MARKERS)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files beside the weights of a model, in the folder of these. Inner ones have a slash.

    Attributes:
        code: the files that programs run; they are copied only on request.
        left_out: inner folders and files of the model that are not copied, since they are large or
            many, or links out of the folder.
        needs_code: whether a config names classes in the code.
    """

    folder: Path
    names: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    needs_code: bool = False

    def contents(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of some of the files by name."""
        files: dict[str, bytes] = {}
        for name in names:
            with _readable(self.folder / name):
                files[name] = read_regular(self.folder / name, MAX_FILE_BYTES)
        return files


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Refuse to leave out a file of the model that cannot be read."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            "{path} cannot be read: {reason}. Make it readable, or save without the files of the "
            "model.",
            path=error.filename or path,
            reason=error.strerror or error,
        ) from error


def find_model_files(weights: Path) -> ModelFiles:
    """Return the small files beside a file with weights, and in folders beside it.

    They are found by their names and sizes. Hidden files are none of them, and neither are links
    out of the folder, except into the cache of Hugging Face. Outside of the folder of a model (see
    `is_model_folder`) there are none.
    """
    folder = weights.parent
    with _readable(folder):
        return _found(folder, weights) if _is_model_folder(folder) else ModelFiles(folder)


def _found(folder: Path, weights: Path) -> ModelFiles:
    allowed = allowed_folders(folder)
    modes_tell = not _is_executable(weights)  # some file systems call every file executable
    paths: list[Path] = []
    left_out: list[str] = []
    for path in visible_files(folder):
        runs = modes_tell and _is_executable(path) and not is_weight_file(path)
        if runs or is_model_file_name(path.name):
            is_small = path.stat().st_size <= MAX_FILE_BYTES and _is_within(path, allowed)
            paths.append(path) if is_small else left_out.append(path.name)
    for inner in sorted(folder.iterdir()):
        if inner.is_dir() and not inner.is_symlink() and is_inner_folder_name(inner.name):
            if _is_small(inner):
                paths += visible_files(inner)
            else:
                left_out.append(inner.name)
    names: list[str] = []
    code: list[str] = []
    nbytes = 0
    for path in paths:
        is_code = is_code_name(path.name) or (modes_tell and _is_executable(path))
        files = code if is_code else names
        nbytes += path.stat().st_size
        has_room = nbytes <= MAX_NBYTES and len(files) < MAX_FILES
        (files if has_room else left_out).append(path.relative_to(folder).as_posix())
    needs_code = any(_names_code(folder / name) for name in names if name.endswith("config.json"))
    return ModelFiles(folder, tuple(names), tuple(code), tuple(left_out), needs_code)


def _is_small(folder: Path) -> bool:
    paths = list(islice(folder.iterdir(), MAX_INNER_FILES + 1))
    allowed = allowed_folders(folder)
    return len(paths) <= MAX_INNER_FILES and all(
        path.is_file()
        and path.stat().st_size <= max_inner_nbytes(folder.name, path.name)
        and _is_within(path, allowed)
        for path in paths
    )


def _is_executable(path: Path) -> bool:
    return os.name == "posix" and bool(path.stat().st_mode & 0o111)


def _is_within(path: Path, allowed: set[Path]) -> bool:
    return Path(os.path.realpath(path)).parent in allowed


def _names_code(config: Path) -> bool:
    with suppress(OSError):
        return CODE_IN_CONFIG in read_regular(config, MAX_INNER_FILE_BYTES)
    return False
