"""Files that a method names: the value of such a field means one file, whoever reads it."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    PlainSerializer,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from prune_gui.language import tr


class FilePath(str):
    """The path of a file, in a recipe the absolute one; equal to others by that alone.

    Attributes:
        written: the path as the user wrote it.
    """

    __slots__ = ("written",)

    written: str

    @classmethod
    def of(cls, written: str, folder: Path) -> FilePath:
        """Return the path of a file that is written in a recipe in `folder`.

        Raises:
            OSError: `folder` is relative, and there is no current folder any more.
        """
        path = cls((folder / written).absolute())
        path.written = written
        return path

    @property
    def in_full(self) -> FilePath:
        """The same path, written as it is."""
        return FilePath.of(str(self), Path())

    def seen_from(self, folder: Path) -> FilePath:
        """Return the same path, written in full unless that is needless in `folder`."""
        return self if FilePath.of(self.written, folder) == self else self.in_full


def _locate(given: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> FilePath:  # noqa: ANN401 - to be validated
    """Validate a path; the context is the folder of the recipe. Without one it is as it was given.

    Every method that is read as a part of a recipe has such a context.
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
    WrapValidator(_locate),
    PlainSerializer(attrgetter("written"), return_type=str, when_used="json"),
]
"""The type of a field that names a file: a `FilePath`, of which JSON has what was written."""
