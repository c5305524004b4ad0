"""Documents: small files that the user names, such as recipes, reports, tables and pictures.

A document never replaces a checkpoint, whatever the user confirms.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.file_format import HEAD_BYTES
from prune_gui.checkpoint.formats import recognized
from prune_gui.checkpoint.sharded.index import is_index
from prune_gui.checkpoint.write.atomic import explained, rehearse, replacing_together, write_bytes
from prune_gui.errors import CheckpointError
from prune_gui.language import trn

RECIPE_SUFFIXES: Final = (".yaml", ".yml")
PAGE_SUFFIXES: Final = (".html", ".htm")
TABLE_SUFFIXES: Final = (".csv",)
PICTURE_SUFFIXES: Final = (".png", ".svg", ".pdf")
EVALUATOR_SUFFIXES: Final = (".py",)
"""The suffixes of the kinds of documents, the usual one first."""
DOCUMENT_SUFFIXES: Final = (
    *(*RECIPE_SUFFIXES, *PAGE_SUFFIXES, *TABLE_SUFFIXES),
    *(*PICTURE_SUFFIXES, *EVALUATOR_SUFFIXES),
)
PICTURE_MAGICS: Final = (b"\x89PNG\r\n\x1a\n", b"%PDF-")


def document_path(path: Path, suffixes: Sequence[str]) -> Path:
    """Return the path of a document; a name without a suffix gets the first of `suffixes`.

    CheckpointError says that the name has another suffix, or is that of a folder.
    """
    if path.is_dir():
        raise CheckpointError("{path} is a folder. Specify a file name.", path=path)
    if path.suffix.lower() in suffixes:
        return path
    if not path.suffix.strip("."):
        return path.with_name(f"{path.name}{suffixes[0]}")
    raise CheckpointError(
        trn(
            "{name} was not written: its name must end in {suffixes}.",
            "{name} was not written: its name must end in one of {suffixes}.",
            len(suffixes),
            name=path.name,
            suffixes=", ".join(suffixes),
        )
    )


def check_documents(paths: Sequence[Path], *, overwrite: bool = True) -> None:
    """Raise CheckpointError if documents may not or cannot be written, before they are computed."""
    for path in paths:
        _check_replaceable(path)
    rehearse(replacing_together(dict.fromkeys(paths, 0), overwrite=overwrite))


def write_documents(contents: Mapping[Path, bytes], *, overwrite: bool = True) -> None:
    """Write documents atomically: an error leaves all of them as they were.

    CheckpointError says that a document may not or cannot be written, or would replace a
    checkpoint or another file that is neither a text nor a picture.
    """
    for path in contents:
        document_path(path, DOCUMENT_SUFFIXES)
        _check_replaceable(path)
    sizes = {path: len(octets) for path, octets in contents.items()}
    with replacing_together(sizes, overwrite=overwrite) as drafts:
        for draft, octets in zip(drafts, contents.values(), strict=True):
            write_bytes(draft, octets)


def _check_replaceable(path: Path) -> None:
    """Check that a path has no file yet, or one with the content of a document."""
    if not path.is_file():
        return
    with explained(path), path.open("rb") as file:
        start = file.read(HEAD_BYTES)
        if not start or start.startswith(PICTURE_MAGICS):
            return
        is_text = b"\0" not in start and recognized(start, file) is None
    if not is_text or is_index(Path(os.path.realpath(path))):
        raise CheckpointError(
            "{path} was not written: it is a checkpoint or another binary file. Choose another "
            "name.",
            path=path,
        )
