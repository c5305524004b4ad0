"""A job in parts: several runs of the program, such as those of a batch system, share its work.

A stage of a job is one call of `Executor.map`. Part I of N does every N-th task of each stage, from
the I-th on, and writes the results to a file in the work folder. A part that finds the files of all
parts goes on to the next stage with their results. So all parts take the same decisions, no part
depends on another one being alive, and a killed part is simply run again.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from prune_gui.checkpoint import Checkpoint, open_checkpoint
from prune_gui.checkpoint.write.atomic import replace_bytes
from prune_gui.executor import Result, Task, use_executor
from prune_gui.language import listed, tr
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.pruning.parallel import run
from prune_gui.recipe.exporting import is_written_by_tasks, write
from prune_gui.recipe.output import OutputOptions, OutputPath
from prune_gui.recipe.recipe import Recipe
from prune_gui.recipe.resolution import Resolution, resolve
from prune_gui.recipe.share_files import JobError, Share, read_share, write_share
from prune_gui.regular_files import read_regular

log = logging.getLogger(__name__)

JOB_NAME: Final = "job.json"
MAX_PARTS: Final = 999_999
MAX_JOB_BYTES: Final = 1 << 24
SHARDS_NAME: Final = "shards"
OLD_SHARES: Final = "stage-*.pickle"
"""The names that shares had before they were plain data."""
MISFITS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
"""What results raise that do not belong to the checkpoint and the recipe."""
POLL_S: Final = 0.5
"""Interval between two looks for the files of other parts."""


class PartsMissingError(JobError):
    """A stage needs the files of parts that have not done their share."""


class _PartDone(Exception):  # noqa: N818 - an outcome, not an error
    """All shares of a part are written."""


@dataclass(frozen=True, slots=True)
class SharedJob:
    """What the parts of a job do together.

    Attributes:
        parts: the number of parts.
        recipe: the text of the recipe.
        folder: the folder of the recipe, to which its paths are relative.
        checkpoint: the absolute path or the URL of the checkpoint.
        digest: hexadecimal `Checkpoint.files_digest`.
        state: see `open_checkpoint`.
        out: the absolute path or the URL of the output.
        options: how it is written.
    """

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
        """Return the job of a work folder.

        Raises:
            JobError: the folder has none.
        """
        try:
            job = _job_type().validate_json(
                read_regular(folder / JOB_NAME, MAX_JOB_BYTES), strict=True
            )
        except (OSError, ValidationError) as error:
            raise JobError(
                tr(
                    "{folder} is not the work folder of a job: {file} cannot be read. Run the "
                    "parts first.",
                    folder=folder,
                    file=JOB_NAME,
                )
            ) from error
        if any(folder.glob(OLD_SHARES)):
            raise JobError(
                tr(
                    "The files in {folder} were made by another version of the program. Delete "
                    "the folder, and run the parts again.",
                    folder=folder,
                )
            )
        return job

    def save(self, folder: Path) -> None:
        """Write the job into its work folder, unless another part did.

        Raises:
            JobError: the folder has another job.
            CheckpointError: the folder cannot be written.
        """
        if not (folder / JOB_NAME).exists():
            replace_bytes(folder / JOB_NAME, _job_type().dump_json(self))
        if SharedJob.load(folder) != self:
            raise JobError(
                tr(
                    "{folder} is the work folder of another job. Choose an empty folder, or delete "
                    "this one.",
                    folder=folder,
                )
            )

    def resolve(
        self, checkpoint: Checkpoint, progress: Progress | None, cancel: CancelFlag | None
    ) -> Resolution:
        """Apply the recipe; see `prune_gui.resolve`."""
        recipe = Recipe.from_yaml(self.recipe, folder=Path(self.folder))
        return resolve(recipe, checkpoint, progress, cancel)

    def open(self) -> Checkpoint:
        """Open the checkpoint.

        Raises:
            CheckpointError: it cannot be opened.
            JobError: it was changed since the job began.
        """
        checkpoint = open_checkpoint(self.checkpoint, self.state)
        if checkpoint.files_digest().hex() != self.digest:
            checkpoint.close()
            raise JobError(
                tr(
                    "{path} was changed since the job began. Delete the work folder, and run all "
                    "parts again.",
                    path=self.checkpoint,
                )
            )
        return checkpoint


@cache
def _job_type() -> TypeAdapter[SharedJob]:
    return TypeAdapter(SharedJob)


def run_part(
    job: SharedJob,
    folder: Path,
    part: int,
    *,
    wait: bool,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
) -> None:
    """Do the share of a part in all stages that can begin.

    Args:
        job: the job.
        folder: its work folder, which all parts and `merge` see.
        part: the number of the part, from 1.
        wait: whether to wait for the other parts where a stage needs them.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.

    Raises:
        PartsMissingError: the next stage needs parts that have not done their share.
        PruneGuiError: as `resolve` and `export`.
    """
    job.save(folder)
    executor = _Shares(folder, job.parts, part - 1, wait=wait)
    with job.open() as checkpoint, use_executor(executor), executor.fitting():
        resolution = job.resolve(checkpoint, progress, cancel)
        target = OutputPath.of(checkpoint, job.out, job.options)
        if is_written_by_tasks(resolution, target, job.options.form):
            with suppress(_PartDone):
                write(resolution, job.out, job.options, Monitor(progress, cancel))


def merge(
    folder: Path, progress: Progress | None = None, cancel: CancelFlag | None = None
) -> tuple[SharedJob, Resolution]:
    """Write the output of a job whose parts are done, and delete the files of the job.

    Args:
        folder: the work folder.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.

    Returns:
        The job, and the resolution; its checkpoint is closed.

    Raises:
        PartsMissingError: some parts are not done.
        PruneGuiError: as `resolve` and `export`.
    """
    job = SharedJob.load(folder)
    executor = _Shares(folder, job.parts, None, wait=False)
    with job.open() as checkpoint, use_executor(executor), executor.fitting():
        resolution = job.resolve(checkpoint, progress, cancel)
        write(resolution, job.out, job.options, Monitor(progress, cancel))
    _remove_files(folder)
    return job, resolution


def _remove_files(folder: Path) -> None:
    """Remove the files of a job, and its work folder unless the user has other files in it."""
    shutil.rmtree(folder / SHARDS_NAME, ignore_errors=True)
    for path in (folder / JOB_NAME, *folder.glob("stage-*-part-*")):
        path.unlink()
    with suppress(OSError):  # it is not empty
        folder.rmdir()


class _Shares:
    """The executor of a part, or of `merge`; see `prune_gui.executor.Executor`.

    Args:
        part: the index of this part; None if it does no share.
    """

    def __init__(self, folder: Path, parts: int, part: int | None, *, wait: bool) -> None:
        self._folder = folder
        self._parts = parts
        self._part = part
        self._wait = wait
        self._stage = 0
        self._writes = False

    def staging_folder(self, folder: Path) -> Path:
        """Return a folder in the work folder, as all parts write to it; see `Executor`."""
        self._writes = True
        staging = self._folder / SHARDS_NAME
        staging.mkdir(exist_ok=True)
        return staging

    def map(
        self, work: Callable[[Task, Monitor], Result], tasks: Sequence[Task], monitor: Monitor
    ) -> Iterator[Result]:
        """Yield ``work(task, monitor)`` for every task, in order; see `Executor.map`."""
        self._stage += 1
        if self._part is not None and not self._file(self._part).exists():
            self._do_share(self._part, work, tasks, monitor)
        if self._part is not None and self._writes:
            raise _PartDone
        self._wait_for_parts(monitor)
        results: list[Any] = [None] * len(tasks)
        for part in range(self._parts):
            share = read_share(self._file(part))
            mine = range(part, len(tasks), self._parts)
            if share.tasks != len(tasks) or len(share.results) != len(mine):
                raise self._misfit()
            results[part :: self._parts] = share.results
            monitor.advance(share.nbytes)
        yield from results

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Convert what results of parts raise that do not fit: they may be from other hands."""
        try:
            yield
        except MISFITS as error:
            if not self._stage:
                raise
            log.info("The results of parts cannot be used", exc_info=True)
            raise self._misfit() from error

    def _misfit(self) -> JobError:
        return JobError(
            tr(
                "The files of the parts do not fit each other, the checkpoint and the recipe. "
                "Delete the work folder {folder}, and run all parts again with the same version "
                "of the program.",
                folder=self._folder,
            )
        )

    def _do_share(
        self,
        part: int,
        work: Callable[[Task, Monitor], Result],
        tasks: Sequence[Task],
        monitor: Monitor,
    ) -> None:
        counted = Monitor(cancel=monitor)
        with use_executor(None), counted.in_charge():
            results = list(run(lambda task: work(task, counted), tasks[part :: self._parts]))
        write_share(self._file(part), Share(len(tasks), results, counted.done))

    def _wait_for_parts(self, monitor: Monitor) -> None:
        while missing := [part for part in range(self._parts) if not self._file(part).exists()]:
            monitor.advance()
            if not self._wait:
                raise PartsMissingError(
                    tr(
                        "Stage {stage} of the job needs part {parts} of {count}. Run it, and then "
                        "this command again.",
                        stage=self._stage,
                        parts=listed([str(part + 1) for part in missing]),
                        count=self._parts,
                    )
                )
            time.sleep(POLL_S)

    def _file(self, part: int) -> Path:
        """Return the file of the share of a part in the current stage."""
        return self._folder / f"stage-{self._stage:04}-part-{part + 1:04}.share"
