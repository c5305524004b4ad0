"""The files of shares: pickles of arrays and of a few classes, and of nothing else.

A work folder may come from elsewhere, so reading a file must not run code: names that are not in
`ALLOWED` are refused.
"""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.errors import PruneGuiError
from prune_gui.language import tr

ALLOWED: Final = frozenset(
    {
        ("builtins", "slice"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("prune_gui.pruning.predicates.channels", "PrunedUnits"),
        ("prune_gui.pruning.selection.histogram_cache", "DigitHistogram"),
        ("prune_gui.pruning.selection.radix_select", "Cut"),
        ("prune_gui.pruning.selection.row_column_scores", "_BlockSums"),
        ("prune_gui.pruning.selection.rows", "RowCuts"),
    }
)
"""The modules and names of all classes and functions in a file."""
_DAMAGED: Final = (
    *(pickle.UnpicklingError, struct.error, EOFError, MemoryError),
    *(AttributeError, ImportError, LookupError, TypeError, ValueError, OverflowError),
)


class JobError(PruneGuiError):
    """The work folder of a job cannot be used."""


class Share(NamedTuple):
    """What a part did in a stage.

    Attributes:
        tasks: the number of tasks of the stage, in all parts.
        results: those of the part.
        nbytes: the number of bytes that the part read or wrote.
    """

    tasks: int
    results: list[Any]
    nbytes: int


def write_share(path: Path, share: Share) -> None:
    """Write a file atomically.

    Raises:
        CheckpointError: the file cannot be written.
    """
    replace_bytes(path, pickle.dumps(tuple(share), pickle.HIGHEST_PROTOCOL))


def read_share(path: Path) -> Share:
    """Read a file.

    Raises:
        JobError: the file is damaged, or has other things than the results of a part.
    """
    try:
        share = Share(*_Unpickler(io.BytesIO(path.read_bytes())).load())
        if isinstance(share.results, list) and {type(share.tasks), type(share.nbytes)} == {int}:
            return share
    except _DAMAGED as error:
        raise _damaged(path) from error
    raise _damaged(path)


def _damaged(path: Path) -> JobError:
    return JobError(tr("{file} is damaged. Delete it, and run its part again.", file=path))


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as in the base class
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return super().find_class(module, name)
