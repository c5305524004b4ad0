"""Where the program was when it died in compiled code, kept for the next start to show."""

from __future__ import annotations

import faulthandler
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from prune_gui.session.log import log_path


@dataclass(frozen=True, slots=True)
class Crash:
    """What a program left that died.

    Attributes:
        text: the signal, and where each of its threads was, the latest call first.
        when: it died.
    """

    text: str
    when: datetime


class CrashTrail:
    """The file into which the interpreter writes as it dies; empty as long as it lives.

    Windows that are open at the same time share it. What is found there at the start is put by
    under another name, in place of what was there.

    Args:
        path: of the file; beside the log unless it is given.

    Attributes:
        last: what the program that ran before left; None if it did not die.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or log_path().with_name("crash.txt")
        self._file: BinaryIO | None = None
        self.last = self._put_by()

    def start(self) -> None:
        """Have the interpreter write there; the program works all the same if it cannot."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
            faulthandler.enable(self._file)

    def stop(self) -> None:
        """Leave the file alone: the program ends as it should."""
        if self._file is not None:
            faulthandler.disable()
            self._file.close()
            self._file = None

    def _put_by(self) -> Crash | None:
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace").strip()
            when = datetime.fromtimestamp(self._path.stat().st_mtime)
            if text:
                self._path.replace(f"{self._path}.old")
        except OSError:
            return None
        return Crash(text, when) if text else None
