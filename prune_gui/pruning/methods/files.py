"""Paths of files in fields of methods, independent of the working folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    PlainSerializer,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from prune_gui.language import tr


class FilePath(str):
    """The path of a file, absolute within a recipe; `written` does not affect equality."""

    __slots__ = ("written",)

    written: str

    @classmethod
    def of(cls, written: str, folder: Path) -> FilePath:
        """Return the path of a file that a recipe in `folder` names.

        Raises:
            OSError: `folder` is relative, and the working folder was deleted.
        """
        path = cls((folder / written).absolute())
        path.written = written
        return path

    @property
    def in_full(self) -> FilePath:
        """The same path, written as absolute path."""
        return FilePath.of(str(self), Path())

    def seen_from(self, folder: Path) -> FilePath:
        """Return the same path for a recipe in `folder`, written as absolute path if necessary."""
        return self if FilePath.of(self.written, folder) == self else self.in_full


def _written(path: str) -> str:
    return path.written if isinstance(path, FilePath) else path


def _validate_path(
    given: Any,  # noqa: ANN401 - not validated yet
    handler: ValidatorFunctionWrapHandler,
    info: ValidationInfo,
) -> FilePath:
    """Validate a path; the validation context is the folder of the recipe.

    Methods in recipes have that context. Without it, the path is unchanged.
    """
    text: str = handler(given)
    if isinstance(given, FilePath):
        return given
    if info.context is None:
        path = FilePath(text)
        path.written = text
        return path
    try:
        return FilePath.of(text, info.context)
    except OSError as error:
        raise ValueError(tr("the current folder does not exist; write the path in full")) from error


FileName = Annotated[
    str,
    WrapValidator(_validate_path),
    PlainSerializer(_written, return_type=str, when_used="json"),
]
"""The type of a field that names a file: a `FilePath`; JSON has its `written` form."""


OPTIMIZER: Final = "optimizer"
"""In place of a file of scores: those of the optimizer in the checkpoint."""


def _validate_scores(
    given: Any,  # noqa: ANN401 - not validated yet
    handler: ValidatorFunctionWrapHandler,
    info: ValidationInfo,
) -> str:
    return OPTIMIZER if given == OPTIMIZER else _validate_path(given, handler, info)


ScoresName = Annotated[
    str,
    WrapValidator(_validate_scores),
    PlainSerializer(_written, return_type=str, when_used="json"),
]
"""The type of a field that names a file of scores: a `FilePath`, or `OPTIMIZER`."""


def file_name(path: str) -> str:
    """Return the last part of a path of any operating system."""
    return path.replace("\\", "/").rpartition("/")[2]
