"""A job in parts: several runs of the program, such as those of a batch system, share its work.

A stage of a job is one call of `Executor.map`. Part I of N does every N-th task of each stage, from
the I-th on, and writes the results to a file in the work folder. A part that finds the files of all
parts goes on to the next stage with their results. So all parts take the same decisions, no part
depends on another one being alive, and a killed part is simply run again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError
from safetensors import SafetensorError

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.errors import JobError, PartsMissingError
from prune_gui.executor import Result, Task, use_executor
from prune_gui.language import listed
from prune_gui.monitor import Monitor
from prune_gui.parallel import run
from prune_gui.pruning.predicates.unit_cuts import PrunedUnits
from prune_gui.pruning.selection.histogram_cache import DigitHistogram
from prune_gui.pruning.selection.radix_select import Cut, RowCuts
from prune_gui.pruning.selection.row_column_scores import BlockSums
from prune_gui.recipe.exporting import is_written_by_tasks, write
from prune_gui.recipe.output import OutputOptions, OutputPath
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.resolution import Resolution, resolved
from prune_gui.regular_files import open_regular, read_regular

log = logging.getLogger(__name__)

JOB_NAME: Final = "job.json"
MAX_PARTS: Final = 999_999
MAX_JOB_BYTES: Final = 1 << 24
SHARDS_NAME: Final = "shards"
OLD_SHARES: Final = "stage-*.pickle"  # the names that shares had before they were plain data
MISFITS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
"""What results raise that do not belong to the checkpoint and the recipe."""
POLL_S: Final = 0.5  # interval between two looks for the files of other parts


class _PartDone(Exception):  # noqa: N818 - an outcome, not an error
    """All shares of a part are written."""


@dataclass(frozen=True, slots=True)
class SharedJob:
    """What the parts of a job do together; `checkpoint` and `out` are absolute paths or URLs."""

    parts: Annotated[int, Field(ge=1, le=MAX_PARTS)]
    recipe: str
    folder: str
    checkpoint: str
    digest: str
    state: str | None
    out: str
    options: OutputOptions

    @classmethod
    def load(cls, folder: Path) -> SharedJob:
        """Return the job of a work folder."""
        try:
            job = _job_type().validate_json(
                read_regular(folder / JOB_NAME, MAX_JOB_BYTES), strict=True
            )
        except (OSError, ValidationError) as error:
            raise JobError(
                "{folder} is not the work folder of a job: {file} cannot be read. Run the "
                "parts first.",
                folder=folder,
                file=JOB_NAME,
            ) from error
        if any(folder.glob(OLD_SHARES)):
            raise JobError(
                "The files in {folder} were made by another version of the program. Delete "
                "the folder, and run the parts again.",
                folder=folder,
            )
        return job

    def save(self, folder: Path) -> None:
        """Write the job into its work folder, unless another part did."""
        if not (folder / JOB_NAME).exists():
            replace_bytes(folder / JOB_NAME, _job_type().dump_json(self))
        if SharedJob.load(folder) != self:
            raise JobError(
                "{folder} is the work folder of another job. Choose an empty folder, or delete "
                "this one.",
                folder=folder,
            )

    def open(self) -> Checkpoint:
        """Open the checkpoint."""
        checkpoint = open_checkpoint(self.checkpoint, self.state)
        if checkpoint.files_digest().hex() != self.digest:
            checkpoint.close()
            raise JobError(
                "{path} was changed since the job began. Delete the work folder, and run all "
                "parts again.",
                path=self.checkpoint,
            )
        return checkpoint


@cache
def _job_type() -> TypeAdapter[SharedJob]:
    return TypeAdapter(SharedJob)


def run_part(job: SharedJob, folder: Path, part: int, monitor: Monitor, *, wait: bool) -> None:
    """Do the share of a part (from 1); raises `PartsMissingError` where a stage needs others."""
    job.save(folder)
    with _resolving(job, _Shares(folder, job.parts, part - 1, wait), monitor) as resolution:
        target = OutputPath.of(resolution.checkpoint, job.out, job.options)
        if is_written_by_tasks(resolution, target, job.options.form):
            with suppress(_PartDone):
                write(resolution, job.out, job.options, monitor)


def merge(folder: Path, monitor: Monitor) -> tuple[SharedJob, Resolution]:
    """Write the output of a job, and delete its files; the checkpoint of the result is closed."""
    job = SharedJob.load(folder)
    with _resolving(job, _Shares(folder, job.parts, None, False), monitor) as resolution:
        write(resolution, job.out, job.options, monitor)
    shutil.rmtree(folder / SHARDS_NAME, ignore_errors=True)
    for path in (folder / JOB_NAME, *folder.glob("stage-*-part-*")):
        path.unlink()
    with suppress(OSError):  # the user has other files in it
        folder.rmdir()
    return job, resolution


@contextmanager
def _resolving(job: SharedJob, executor: _Shares, monitor: Monitor) -> Iterator[Resolution]:
    with job.open() as checkpoint, use_executor(executor), executor.fitting():
        recipe = Recipe.from_yaml(job.recipe, folder=Path(job.folder))
        yield resolved(recipe, checkpoint, monitor)


@dataclass
class _Shares:
    """The executor of a part, or of `merge`, which does no share; see `prune_gui.executor`."""

    folder: Path
    parts: int
    part: int | None
    wait: bool
    stage: int = 0
    writes: bool = False

    def staging_folder(self, folder: Path) -> Path:
        """Return a folder in the work folder, as all parts write to it; see `Executor`."""
        self.writes = True
        staging = self.folder / SHARDS_NAME
        staging.mkdir(exist_ok=True)
        return staging

    def map(
        self, work: Callable[[Task, Monitor], Result], tasks: Sequence[Task], monitor: Monitor
    ) -> Iterator[Result]:
        self.stage += 1
        if self.part is not None and not self._file(self.part).exists():
            counted = Monitor(cancel=monitor)
            with use_executor(None), counted.in_charge():
                mine = tasks[self.part :: self.parts]
                done = list(run(lambda task: work(task, counted), mine))
            write_share(self._file(self.part), Share(len(tasks), done, counted.done))
        if self.part is not None and self.writes:
            raise _PartDone
        self._wait_for_parts(monitor)
        results: list[Any] = [None] * len(tasks)
        for part in range(self.parts):
            share = read_share(self._file(part))
            expected = len(range(part, len(tasks), self.parts))
            if share.tasks != len(tasks) or len(share.results) != expected:
                raise self._misfit()
            results[part :: self.parts] = share.results
            monitor.advance(share.nbytes)
        yield from results

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Convert what results of parts raise that do not fit: they may be from other hands."""
        try:
            yield
        except MISFITS as error:
            if not self.stage:
                raise
            log.info("The results of parts cannot be used", exc_info=True)
            raise self._misfit() from error

    def _misfit(self) -> JobError:
        return JobError(
            "The files of the parts do not fit each other, the checkpoint and the recipe. "
            "Delete the work folder {folder}, and run all parts again with the same version "
            "of the program.",
            folder=self.folder,
        )

    def _wait_for_parts(self, monitor: Monitor) -> None:
        while missing := [part for part in range(self.parts) if not self._file(part).exists()]:
            monitor.advance()
            if not self.wait:
                raise PartsMissingError(
                    "Stage {stage} of the job needs part {parts} of {count}. Run it, and then "
                    "this command again.",
                    stage=self.stage,
                    parts=listed([str(part + 1) for part in missing]),
                    count=self.parts,
                )
            time.sleep(POLL_S)

    def _file(self, part: int) -> Path:
        return self.folder / f"stage-{self.stage:04}-part-{part + 1:04}.share"


MAGIC: Final = b"prune-gui share\n"
DIGEST_BYTES: Final = hashlib.sha256().digest_size
LENGTH_BYTES: Final = 8  # the length of the header of a safetensors file, before the header
KEY: Final = "share"  # of the JSON in the metadata
INTEGERS: Final = range(-(1 << 63), 1 << 64)


class Share(NamedTuple):
    """What a part did in a stage of so many tasks, in all parts; it read or wrote `nbytes`."""

    tasks: int
    results: list[Any]
    nbytes: int


def write_share(path: Path, share: Share) -> None:
    """Write a file atomically."""
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_plain(tuple(share), arrays))
    octets = safetensors.numpy.save(arrays, {KEY: text})
    replace_bytes(path, MAGIC + hashlib.sha256(octets).digest() + octets)


def read_share(path: Path) -> Share:
    """Read a file."""
    try:
        with open_regular(path) as file:
            magic, digest, octets = file.read(len(MAGIC)), file.read(DIGEST_BYTES), file.read()
        if magic == MAGIC and hashlib.sha256(octets).digest() == digest:
            arrays = safetensors.numpy.load(octets)
            length = int.from_bytes(octets[:LENGTH_BYTES], "little")
            header = json.loads(octets[LENGTH_BYTES : LENGTH_BYTES + length])
            share = Share(*_value(json.loads(header["__metadata__"][KEY]), arrays))
            if isinstance(share.results, list) and _are_counts(share.tasks, share.nbytes):
                return share
    except (
        *(OSError, SafetensorError, MemoryError, RecursionError),
        *(LookupError, TypeError, ValueError),
    ) as error:
        raise _damaged(path) from error
    raise _damaged(path)


def _damaged(path: Path) -> JobError:
    return JobError("{file} is damaged. Delete it, and run its part again.", file=path)


def _plain(value: object, arrays: dict[str, NDArray[Any]]) -> object:
    """Return a result as JSON; lists begin with what they stand for. Its arrays are added."""
    if isinstance(value, np.int64 | np.float64 | np.bool_):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        arrays[str(len(arrays))] = np.array(value, order="C")
        return ["array", str(len(arrays) - 1)]
    if isinstance(value, slice):
        return ["slice", *(_plain(each, arrays) for each in (value.start, value.stop, value.step))]
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_plain(each, arrays) for each in value)]  # type: ignore[attr-defined]
    for record, names in _RECORDS.items():
        if type(value) is record:
            return [record.__name__, *(_plain(getattr(value, name), arrays) for name in names)]
    raise TypeError(type(value))


def _value(plain: object, arrays: dict[str, NDArray[Any]]) -> Any:  # noqa: ANN401 - of any type
    match plain:
        case None | bool() | float() | str():
            return plain
        case int() if plain in INTEGERS:
            return plain
        case ["array", str(name)]:
            return np.require(arrays.pop(name), requirements=["C", "W"])
        case ["slice", start, stop, step]:
            if _are_counts(*(each for each in (start, stop, step) if each is not None)):
                return slice(start, stop, step)
        case ["list", *items]:
            return [_value(item, arrays) for item in items]
        case ["tuple", *items]:
            return tuple(_value(item, arrays) for item in items)
        case [str(name), *items]:
            fields = [_value(item, arrays) for item in items]
            for record in _RECORDS:
                if record.__name__ == name and _are_valid(name, fields):
                    return record(*fields)
    raise ValueError("a result of another form")


def _are_counts(*values: object) -> bool:
    return all(type(value) is int and value >= 0 for value in values)


def _are_arrays(kinds: str, *values: object, like: NDArray[Any] | None = None) -> bool:
    return all(
        isinstance(value, np.ndarray)
        and value.ndim == 1
        and value.dtype.kind in kinds
        and (like is None or value.shape == like.shape)
        for value in values
    )


_RECORDS: Final[dict[type, tuple[str, ...]]] = {
    Cut: ("threshold", "last_tie", "pruned", "non_finite"),
    RowCuts: ("thresholds", "last_ties"),
    DigitHistogram: ("values", "counts", "parts"),
    PrunedUnits: ("pruned", "ranks", "remaining", "source"),
    BlockSums: ("row_sums", "row_counts", "sums", "counts"),
}
"""The classes of results, and the names of their fields."""


def _are_valid(name: str, fields: list[Any]) -> bool:
    """Return whether the fields of a record have their types, lengths and ranges."""
    match name, fields:
        case "Cut", [threshold, last_tie, pruned, non_finite]:
            return type(last_tie) is int and _are_counts(
                threshold, last_tie + 1, pruned, non_finite
            )
        case "RowCuts", [thresholds, last_ties]:
            return _are_arrays("u", thresholds) and _are_arrays("i", last_ties, like=thresholds)
        case "DigitHistogram", [values, counts, tuple(parts)]:
            return (
                _are_arrays("u", values)
                and values.dtype == np.uint16
                and bool((values[1:] > values[:-1]).all())
                and _are_arrays("iu", counts, like=values)
                and bool((counts > 0).all())
                and all(isinstance(part, DigitHistogram) for part in parts)
            )
        case "PrunedUnits", [pruned, ranks, remaining, str()]:
            return (
                _are_arrays("b", pruned)
                and (ranks is None or _are_arrays("f", ranks, like=pruned))
                and _are_arrays("i", remaining, like=pruned)
                and bool((remaining >= 0).all())
            )
        case "BlockSums", [row_sums, row_counts, sums, counts]:
            return (
                _are_arrays("f", row_sums, sums)
                and _are_arrays("i", row_counts, like=row_sums)
                and (_are_counts(counts) or _are_arrays("i", counts, like=sums))
            )
    return False
