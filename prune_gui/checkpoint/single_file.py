"""The base class of checkpoints in a single file."""

from __future__ import annotations

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.source import Source
from prune_gui.monitor import Monitor


class FileCheckpoint(Checkpoint):
    """A checkpoint in one file, which stays open.

    Attributes:
        source: the file, which is opened once.
    """

    source: Source

    def check(self) -> None:
        """Check that the file is unchanged; see `Checkpoint.check`."""
        self.source.check()

    def fingerprint(self, monitor: Monitor) -> str:
        """Return "sha256:<hex>" of the file; see `Checkpoint.fingerprint`."""
        return self.source.fingerprint(monitor)

    def close(self) -> None:
        """Close the file; tensors that were read stay valid."""
        self.source.close()
