"""Reading and comparing long runs of bytes piece by piece."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    import torch

PIECE_BYTES: Final = 4 << 20
"""Work between two looks at the monitor, so that Cancel is quick."""


def fingerprint(path: str | os.PathLike[str], monitor: Monitor) -> str:
    """Return "sha256:<hex>" of the bytes of a file.

    Raises:
        CheckpointError: the file cannot be read.
        Cancelled: the monitor says so.
    """
    path = Path(path)
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            monitor.expect(os.fstat(file.fileno()).st_size)
            while piece := file.read(PIECE_BYTES):
                digest.update(piece)
                monitor.advance(len(piece))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from error
    return f"sha256:{digest.hexdigest()}"


def pieces(flat: torch.Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a flat contiguous CPU tensor a few megabytes at a time, uncopied."""
    import torch

    octets = flat.detach().view(torch.uint8).numpy().data
    for start in range(0, len(octets), PIECE_BYTES):
        yield octets[start : start + PIECE_BYTES]
