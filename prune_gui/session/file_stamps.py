"""Whether the files of a checkpoint are still those that were opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

State = tuple[int, int, int]
"""Size in bytes, time of the last change in nanoseconds, and the number of the file."""


@dataclass(frozen=True, slots=True)
class FileStamps:
    """How some files stood at one time. No content is looked at.

    Attributes:
        states: by path; None of a file that was not there.
    """

    states: Mapping[Path, State | None]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Self:
        """Return how files stand now."""
        return cls({path: _state(path) for path in paths})

    def changed(self) -> tuple[Path, ...]:
        """Return the files that are other ones by now; not those that are gone."""
        now = {path: _state(path) for path in self.states}
        return tuple(path for path, state in now.items() if state not in (None, self.states[path]))


def _state(path: Path) -> State | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino
