"""A checkpoint in one file, of any format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.source import Source
from prune_gui.monitor import Monitor


class FileCheckpoint(Checkpoint):
    """A checkpoint in one file, which stays open.

    Attributes:
        source: the file, which is opened once.
    """

    source: Source

    def missing_nbytes(self, names: Iterable[str]) -> int:
        """Return the bytes to fetch before parameters can be read."""
        keys = [key for name in names for key in self.tensors[name].pair or (name,)]
        return self.missing_nbytes_of_keys(keys)

    def missing_nbytes_of_keys(self, keys: Sequence[str]) -> int:
        """Return the bytes to fetch before the tensors under raw keys can be read.

        They are about all of the file, unless a subclass knows better.
        """
        return self.source.missing_nbytes([(0, self.source.size)])

    def fetch(self, monitor: Monitor) -> None:
        """Fetch all of a remote file; see `Checkpoint.fetch`."""
        self.source.fetch(monitor)

    @cached_property
    def model_files_folder(self) -> Path:
        """The folder with the files of the model; see `Checkpoint.model_files_folder`."""
        return self.source.model_files_folder()

    def check(self) -> None:
        """Check that the file is unchanged; see `Checkpoint.check`."""
        self.source.check()

    def file_states(self) -> Mapping[str, tuple[int, int]]:
        """Return the size and the modification time; see `Checkpoint.file_states`."""
        return {self.path.name: self.source.state}

    def fingerprint(self, monitor: Monitor) -> str:
        """Return "sha256:<hex>" of the file; see `Checkpoint.fingerprint`."""
        return self.source.fingerprint(monitor)

    def close(self) -> None:
        """Close the file; tensors that were read stay valid."""
        self.source.close()
