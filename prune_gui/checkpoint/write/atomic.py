"""Replacing files as a whole or not at all."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from prune_gui.checkpoint.write.renaming import rename_no_replace
from prune_gui.checkpoint.write.temp_files import remove_abandoned, temporary
from prune_gui.errors import CheckpointError
from prune_gui.language import tr


@contextmanager
def replacing(target: Path, *, nbytes: int, overwrite: bool) -> Iterator[Path]:
    """Give the path of a new, empty file to fill; once all went well it takes the target's place.

    See `replacing_together`.

    Args:
        target: the file to make or to replace.
        nbytes: about how much will be written; checked against the free space.
        overwrite: whether an existing target may be replaced.

    Raises:
        CheckpointError: the target may not or cannot be written.
    """
    with replacing_together({target: nbytes}, overwrite=overwrite) as (draft,):
        yield draft


@contextmanager
def replacing_together(sizes: Mapping[Path, int], *, overwrite: bool) -> Iterator[list[Path]]:
    """Give the paths of new, empty files to fill; once all went well they take the targets' places.

    Each lies in the folder of its target, so that the last step is a rename. If anything is raised
    meanwhile, or while they are renamed, all targets are as they were. What is open or mapped from
    an old target stays readable (POSIX). What a killed run has left in the folders is removed
    first.

    No file system renames two files in one step. The main target comes last, and a target that
    would stay the same is left alone: killed between two renames, the main target is the old one,
    and the files that belong to it are new.

    A target that is a symbolic link stays one, and the file that it leads to is replaced. The new
    file gets the mode of the old one, and its owner and extended attributes where the system
    permits that. Further hard links to the old file keep the old content.

    Args:
        sizes: the files to make or to replace, the main one last, and about how much will be
            written to each; checked against the free space.
        overwrite: whether existing targets may be replaced. If not, a target that another program
            creates in the meantime is not replaced either.

    Raises:
        CheckpointError: a target may not or cannot be written.
    """
    with ExitStack() as stack:
        drafts = [
            stack.enter_context(_drafted(target, nbytes, overwrite=overwrite))
            for target, nbytes in sizes.items()
        ]
        yield [draft.path for draft in drafts]
        _commit(drafts)
        for folder in {draft.real.parent for draft in drafts}:
            flush_folder(folder)


class _Draft(NamedTuple):
    """A new file and where it goes.

    Attributes:
        path: of the new file.
        target: as the user calls it.
        real: the target, or the file that it leads to.
        overwrite: whether that may be replaced.
    """

    path: Path
    target: Path
    real: Path
    overwrite: bool


@contextmanager
def _drafted(target: Path, nbytes: int, *, overwrite: bool) -> Iterator[_Draft]:
    with explained(target):
        real = _real(target, overwrite=overwrite)
        check_room(target, nbytes, real.parent)
        remove_abandoned(real.parent)
        with temporary(real, _create) as path:
            yield _Draft(path, target, real, overwrite)


def _create(path: Path) -> None:
    path.open("xb").close()


def _commit(drafts: Sequence[_Draft]) -> None:
    """Rename all drafts, or none if one of them cannot be."""
    *others, main = drafts
    with ExitStack() as placed:
        for draft in others:
            placed.enter_context(_placed(draft, main))
        _place(main)


@contextmanager
def _placed(draft: _Draft, main: _Draft) -> Iterator[None]:
    """Rename a draft, and undo that unless the block renames the main one."""
    with explained(draft.target), ExitStack() as stack:
        undo: Callable[[], object] = draft.real.unlink
        if draft.real.exists():
            if filecmp.cmp(draft.real, draft.path, shallow=False):
                yield
                return
            old = stack.enter_context(temporary(draft.real, partial(_link, draft.real)))
            undo = partial(old.replace, draft.real)
        _place(draft)
        try:
            yield
        except BaseException:
            if main.path.exists():
                with suppress(OSError):
                    undo()
            raise


def _link(old: Path, path: Path) -> None:
    """Give a file a second name, or copy it where the file system has no hard links."""
    try:
        os.link(old, path)
    except OSError:
        shutil.copy2(old, path)


def _place(draft: _Draft) -> None:
    """Let a draft take the place of its target."""
    with explained(draft.target):
        _real(draft.target, overwrite=draft.overwrite)
        if draft.overwrite:
            keep_attributes(draft.real, draft.path)
            draft.path.replace(draft.real)
            return
        try:
            rename_no_replace(draft.path, draft.real)
        except FileExistsError:
            raise _exists(draft.target) from None


def keep_attributes(old: Path, new: Path) -> None:
    """Give a new file or folder the mode, the owner and the extended attributes of an old one.

    What the system or the file system does not permit is left as it is, and so is all of it if
    there is no old one.
    """
    try:
        status = old.stat()
    except FileNotFoundError:
        return
    if os.name == "posix":
        with suppress(OSError):
            os.chown(new, -1, status.st_gid)  # any group of the user is permitted
        with suppress(OSError):
            os.chown(new, status.st_uid, -1)  # permitted to root alone
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(old):
                with suppress(OSError):
                    os.setxattr(new, name, os.getxattr(old, name))
    with suppress(OSError):
        new.chmod(stat.S_IMODE(status.st_mode))  # last: a new owner takes away special bits


class _RehearsedError(Exception):
    """Ends a rehearsal."""


def rehearse(writing: AbstractContextManager[object]) -> None:
    """Do what `replacing_together` or `replacing_folder` begins with, and take it back.

    Raises:
        CheckpointError: the target may not or cannot be written.
    """
    with suppress(_RehearsedError), writing:
        raise _RehearsedError


def flush(file: BinaryIO) -> None:
    """Wait until what was written to a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def explained(target: Path) -> Iterator[None]:
    """Raise what the system refuses while `target` is written as a CheckpointError."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(_explain(error, target)) from error


def check_room(target: Path, nbytes: int, folder: Path | None = None) -> None:
    """Check that there is a folder to write `target` to, with so much space.

    Args:
        target: for the message.
        nbytes: how much is needed.
        folder: where it is written, if that is not the folder of `target`.

    Raises:
        CheckpointError: there is not.
    """
    folder = folder or target.parent
    if not folder.is_dir():
        raise CheckpointError(
            tr(
                "{path} cannot be written: there is no folder {folder}.",
                path=target,
                folder=folder,
            )
        )
    free = shutil.disk_usage(folder).free
    if free < nbytes:
        raise CheckpointError(
            tr(
                "{name} needs {needed:,} bytes, and {folder} has {free:,} left. "
                "Make room, or save it elsewhere.",
                name=target.name,
                needed=nbytes,
                folder=folder,
                free=free,
            )
        )


def _real(target: Path, *, overwrite: bool) -> Path:
    """Return the file that a target is or leads to.

    Raises:
        CheckpointError: it leads to none, or may not be replaced.
        OSError: that cannot be told.
    """
    check_link(target)
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return target
    if stat.S_ISDIR(mode):
        raise CheckpointError(
            tr("{path} is a folder. Give the name of a file to write.", path=target)
        )
    if not stat.S_ISREG(mode):
        raise CheckpointError(
            tr(
                "{path} is no regular file but a pipe, a socket or a device. Choose another name.",
                path=target,
            )
        )
    if not overwrite:
        raise _exists(target)
    return Path(os.path.realpath(target))


def check_link(target: Path) -> None:
    """Check that a target is no symbolic link that leads nowhere.

    Raises:
        CheckpointError: it is.
    """
    if target.is_symlink() and not target.exists():
        raise CheckpointError(
            tr(
                "{path} is a link to something that does not exist. Remove the link, or choose "
                "another name.",
                path=target,
            )
        )


def _exists(target: Path) -> CheckpointError:
    return CheckpointError(
        tr("{path} exists already. Choose another name, or allow overwriting it.", path=target)
    )


def flush_folder(folder: Path) -> None:
    """Make a rename in a folder last through a power cut, where the file system offers that."""
    if os.name != "posix":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explain(error: OSError, target: Path) -> str:
    if error.errno == errno.ENOSPC:
        return tr(
            "{path} was not written: the disk is full. Make room, or save it elsewhere.",
            path=target,
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return tr("{path} was not written: no permission. Save it elsewhere.", path=target)
    return tr("{path} was not written: {reason}.", path=target, reason=error.strerror or error)
