"""Detection of changes to the files of an open checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

State = tuple[int, int, int]
"""Size in bytes, modification time in nanoseconds, and inode number."""


@dataclass(frozen=True, slots=True)
class FileStamps:
    """The stat results of some files at one time. File contents are not read.

    Attributes:
        states: the state by path; None for a missing file.
    """

    states: Mapping[Path, State | None]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Self:
        """Return the current stamps of files."""
        return cls({path: _state(path) for path in paths})

    def changed(self) -> tuple[Path, ...]:
        """Return the files that were changed, replaced or created since, but not deleted ones."""
        now = {path: _state(path) for path in self.states}
        return tuple(path for path, state in now.items() if state not in (None, self.states[path]))


def _state(path: Path) -> State | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
