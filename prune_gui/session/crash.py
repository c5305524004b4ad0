"""Where the program was when it died in compiled code, kept for the next start to show."""

from __future__ import annotations

import faulthandler
import logging
import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.regular_files import open_regular
from prune_gui.session.log import log_path
from prune_gui.session.state_file import set_aside

MAX_TRAIL_BYTES: Final = 1 << 20

log = logging.getLogger(__name__)


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
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # A FIFO without a reader would block a plain `open` for good.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
            self._file = os.fdopen(os.open(self._path, flags, 0o666), "ab")
            faulthandler.enable(self._file)
        except OSError as error:
            log.info("%s cannot be written: %s", self._path, error.strerror or error)

    def stop(self) -> None:
        """Leave the file alone: the program ends as it should."""
        if self._file is not None:
            faulthandler.disable()
            self._file.close()
            self._file = None

    def _put_by(self) -> Crash | None:
        try:
            with open_regular(self._path) as file:
                octets, written = file.read(MAX_TRAIL_BYTES), os.fstat(file.fileno()).st_mtime
            text = octets.decode(errors="replace").strip()
            if not text:
                return None
            self._path.replace(f"{self._path}.old")
        except FileNotFoundError:
            return None
        except OSError as error:
            self._set_aside(error.strerror or str(error))
            return None
        return Crash(text, datetime.fromtimestamp(min(max(written, 0.0), time.time())))

    def _set_aside(self, problem: str) -> None:
        """Rename what is in the place of the file, unless it is one that cannot be read now."""
        try:
            if not self._path.is_file():
                set_aside(self._path, problem)
                return
        except OSError as error:
            problem = f"{problem}; {error.strerror or error}"
        log.warning("%s cannot be read: %s", self._path, problem)
