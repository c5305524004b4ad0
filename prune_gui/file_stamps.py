"""Detection of changes to files, without reading their contents."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

State = tuple[int, int, int]
"""Size in bytes, modification time in nanoseconds, and inode number."""


class FileStamps(NamedTuple):
    """The state of each of some files at one time, once each; None for a missing file."""

    states: tuple[tuple[Path, State | None], ...] = ()

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Self:
        """Return the current stamps of files; of a path given twice, one."""
        return cls(tuple((path, _state(path)) for path in dict.fromkeys(paths)))

    def changed(self) -> tuple[Path, ...]:
        """Return the files that were changed, replaced or created since, but not deleted ones."""
        return tuple(path for path, before in self.states if _state(path) not in (None, before))


def _state(path: Path) -> State | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
