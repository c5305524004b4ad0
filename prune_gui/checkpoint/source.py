"""The file behind a checkpoint, which has to stay what it was when it was opened."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prune_gui.checkpoint.bus_errors import watch
from prune_gui.checkpoint.byte_chunks import PIECE_BYTES
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.monitor import Monitor
from prune_gui.regular_files import open_regular

if TYPE_CHECKING:
    import torch

FINGERPRINT_PREFIX: Final = "sha256:"


class Source:
    """A file that is opened once, so that it can be read on when another one takes its place.

    Whoever uses pages that are mapped from it checks before and after that it is as it was. Pages
    that another program cuts off in place, or that the disk does not give, turn to zeros (see
    `bus_errors`).

    Attributes:
        path: where it was found.
        file: open for reading.
        size: in bytes.
        state: its size and when it was last changed, to tell another file by.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = open_regular(path)
        try:
            self.state = self._stat()
        except BaseException:
            self.file.close()
            raise
        self.size = self.state[0]
        self._lost = ctypes.c_uint64()

    def check(self) -> None:
        """Check that nobody has changed the file since it was opened, and that it could be read.

        Raises:
            CheckpointError: it is closed, somebody has changed it, or pages of it were lost.
        """
        if self.file.closed:
            raise CheckpointError(tr("{file} is closed. Open it again.", file=self.path.name))
        if self._stat() != self.state:
            raise CheckpointError(
                tr(
                    "{file} was changed by another program since it was opened. Open it again.",
                    file=self.path.name,
                )
            )
        if self._lost.value:
            raise CheckpointError(
                tr(
                    "{file} cannot be read: the disk did not give all of its bytes. Get the file "
                    "again.",
                    file=self.path.name,
                )
            )

    def pages(self, start: int, stop: int) -> torch.Tensor:
        """Return a span of the file as a flat uint8 tensor: its pages, mapped when touched.

        A write to them is private. They stay when the file is closed.

        Raises:
            CheckpointError: the system has no room to map them.
        """
        import torch

        if start == stop:
            return torch.empty(0, dtype=torch.uint8)
        first = start - start % mmap.ALLOCATIONGRANULARITY
        try:
            pages = mmap.mmap(
                self.file.fileno(), stop - first, offset=first, access=mmap.ACCESS_COPY
            )
        except (OSError, ValueError) as error:  # the file may be shorter by now
            self.check()
            raise CheckpointError(
                tr(
                    "{file} cannot be mapped into memory: {reason}. Close other programs.",
                    file=self.path.name,
                    reason=getattr(error, "strerror", None) or error,
                )
            ) from error
        watch(pages, self._lost)
        return torch.frombuffer(pages, dtype=torch.uint8, count=stop - start, offset=start - first)

    def fingerprint(self, monitor: Monitor) -> str:
        """Return "sha256:<hex>" of the bytes of the file that was opened.

        Raises:
            CheckpointError: the file cannot be read, or was changed.
            Cancelled: the monitor says so.
        """
        digest = hashlib.sha256()
        monitor.expect(self.size)
        try:
            self.check()
            self.file.seek(0)
            while piece := self.file.read(PIECE_BYTES):
                digest.update(piece)
                monitor.advance(len(piece))
            self.check()
        except OSError as error:
            reason = error.strerror or error
            raise CheckpointError(
                tr("{path} cannot be read: {reason}.", path=self.path, reason=reason)
            ) from error
        return f"{FINGERPRINT_PREFIX}{digest.hexdigest()}"

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _stat(self) -> tuple[int, int]:
        status = os.fstat(self.file.fileno())
        return status.st_size, status.st_mtime_ns
