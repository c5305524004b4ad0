"""Replacing files and folders atomically."""

from __future__ import annotations

import errno
import filecmp
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from prune_gui.checkpoint.write.temp_files import (
    exchange,
    remove_abandoned,
    rename_no_replace,
    temporary,
)
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred


@contextmanager
def replacing_together(sizes: Mapping[Path, int], *, overwrite: bool) -> Iterator[list[Path]]:
    """Yield the paths of new, empty files, which replace the targets if the block succeeds.

    `sizes` are the approximate bytes to write to each target, the main one last; they are checked
    against the free space. Each new file is in the folder of its target, so that the last step is a
    rename. After an exception in the block or in a rename, all targets are unchanged. An old target
    that is open or mapped stays readable (POSIX). Temporary files of killed runs are removed first.

    No file system renames two files atomically. The main target is renamed last, and a target with
    the same content is not replaced: if the process is killed between two renames, the main target
    is the old file, and the other files are new.

    If a target is a symbolic link, the link stays, and the file that it points to is replaced. The
    new file gets the mode of the old one, and its owner and extended attributes where the system
    permits that. Further hard links to the old file keep the old content.
    """
    with ExitStack() as stack:
        drafts = [
            stack.enter_context(_new_draft(target, nbytes, overwrite=overwrite))
            for target, nbytes in sizes.items()
        ]
        yield [draft.path for draft in drafts]
        *others, main = drafts
        with ExitStack() as committed:  # renames all of them, or none if a rename fails
            for draft in others:
                committed.enter_context(_committed(draft, main))
            _replace_target(main)
        for folder in {draft.real.parent for draft in drafts}:
            flush_folder(folder)


class _Draft(NamedTuple):
    """A new file, the target that the user gave, and the file to which this links."""

    path: Path
    target: Path
    real: Path
    overwrite: bool


@contextmanager
def _new_draft(target: Path, nbytes: int, *, overwrite: bool) -> Iterator[_Draft]:
    with explained(target):
        real = _resolved_target(target, overwrite=overwrite)
        check_room(target, nbytes, real.parent)
        remove_abandoned(real.parent)
        with temporary(real, partial(Path.touch, exist_ok=False)) as path:
            yield _Draft(path, target, real, overwrite)


@contextmanager
def _committed(draft: _Draft, main: _Draft) -> Iterator[None]:
    """Rename a draft; undo this unless the block renames the main draft."""
    with explained(draft.target), ExitStack() as stack:
        undo: Callable[[], object] = draft.real.unlink
        if draft.real.exists():
            if filecmp.cmp(draft.real, draft.path, shallow=False):
                yield
                return
            old = stack.enter_context(temporary(draft.real, partial(link_or_copy, draft.real)))
            undo = partial(old.replace, draft.real)
        _replace_target(draft)
        try:
            yield
        except BaseException:
            if main.path.exists():
                with suppress(OSError):
                    undo()
            raise


def link_or_copy(old: Path, path: Path) -> None:
    """Create a hard link to a file, or a copy where the file system has no hard links."""
    try:
        os.link(old, path)
    except OSError:
        shutil.copy2(old, path)


def _replace_target(draft: _Draft) -> None:
    with explained(draft.target):
        _resolved_target(draft.target, overwrite=draft.overwrite)
        if draft.overwrite:
            keep_attributes(draft.real, draft.path)
            draft.path.replace(draft.real)
            return
        try:
            rename_no_replace(draft.path, draft.real)
        except FileExistsError:
            raise _exists(draft.target) from None


def keep_attributes(old: Path, new: Path) -> None:
    """Copy mode, owner and extended attributes to a new file or folder, where that is permitted."""
    try:
        status = old.stat()
    except FileNotFoundError:
        return
    if os.name == "posix":
        with suppress(OSError):
            os.chown(new, -1, status.st_gid)  # any group of the user is permitted
        with suppress(OSError):
            os.chown(new, status.st_uid, -1)  # permitted only to root
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(old):
                with suppress(OSError):
                    os.setxattr(new, name, os.getxattr(old, name))
    with suppress(OSError):
        new.chmod(stat.S_IMODE(status.st_mode))  # last: chown clears special bits


class _RehearsedError(Exception):
    """Ends the block of `rehearse`."""


def rehearse(writing: AbstractContextManager[object]) -> None:
    """Perform the first steps of `replacing_together` or `replacing_folder`, and undo them."""
    with suppress(_RehearsedError), writing:
        raise _RehearsedError


def flush(file: BinaryIO) -> None:
    """Write the buffers of a file to the disk, and wait for it."""
    file.flush()
    os.fsync(file.fileno())


def start_writeback(file: BinaryIO, start: int, nbytes: int) -> None:
    """Make the system write bytes of a file from `start` on to the disk, without waiting.

    The disk then works while more is computed, and `flush` waits only for the rest.
    """
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # Linux keeps pages in memory that are not on the disk yet
            os.posix_fadvise(file.fileno(), start, nbytes, os.POSIX_FADV_DONTNEED)


def write_bytes(path: Path, octets: bytes) -> None:
    """Write a small file, and flush it to the disk."""
    with path.open("wb") as file:
        file.write(octets)
        flush(file)


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write small files, also into new folders, and flush them to the disk."""
    for path, octets in contents.items():
        path.parent.mkdir(exist_ok=True)
        write_bytes(path, octets)
    for folder in {path.parent for path in contents}:
        flush_folder(folder)


def replace_bytes(target: Path, octets: bytes) -> None:
    """Create a small file, or replace it atomically; see `replacing_together`."""
    with replacing_together({target: len(octets)}, overwrite=True) as (draft,):
        write_bytes(draft, octets)


@contextmanager
def explained(target: Path) -> Iterator[None]:
    """Convert an OSError that occurs while `target` is written to a CheckpointError."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            message = deferred(
                "{path} was not written: the disk is full. Free disk space, or save to another "
                "folder."
            )
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            message = deferred("{path} was not written: no permission. Save to another folder.")
        else:
            message = deferred("{path} was not written: {reason}.")
        reason = error.strerror or error
        raise CheckpointError(message, path=target, reason=reason) from error


def check_room(target: Path, nbytes: int, folder: Path | None = None) -> None:
    """Check that the folder for `target` exists and has enough space."""
    folder = folder or target.parent
    if not folder.is_dir():
        raise CheckpointError(
            "{path} cannot be written: the folder {folder} does not exist.",
            path=target,
            folder=folder,
        )
    free = shutil.disk_usage(folder).free
    if free < nbytes:
        raise CheckpointError(
            "{name} needs {needed:,} bytes, and {folder} has {free:,} free. Free disk space, "
            "or save to another folder.",
            name=target.name,
            needed=nbytes,
            folder=folder,
            free=free,
        )


def _resolved_target(target: Path, *, overwrite: bool) -> Path:
    check_link(target)
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return target
    if stat.S_ISDIR(mode):
        raise CheckpointError("{path} is a folder. Specify a file name.", path=target)
    if not stat.S_ISREG(mode):
        raise CheckpointError(
            "{path} is not a regular file but a pipe, a socket or a device. Choose another name.",
            path=target,
        )
    if not overwrite:
        raise _exists(target)
    return Path(os.path.realpath(target))


def check_link(target: Path) -> None:
    """Check that a target is not a broken symbolic link."""
    if target.is_symlink() and not target.exists():
        raise CheckpointError(
            "{path} is a link to a file that does not exist. Remove the link, or choose "
            "another name.",
            path=target,
        )


def _exists(target: Path) -> CheckpointError:
    return CheckpointError(
        "{path} already exists. Choose another name, or allow overwriting it.", path=target
    )


def flush_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk if possible, so that a rename survives a crash."""
    if os.name != "posix":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def replacing_folder(
    target: Path, *, nbytes: int, overwrite: bool, kept_files: Callable[[Path], Iterable[str]]
) -> Iterator[Path]:
    """Yield the path of a new, empty folder, which replaces the target if the block succeeds.

    The new folder is beside the target, so that the last step is a rename. If the target is not
    empty, the last step is an atomic exchange of the two folders. Only Linux can exchange folders;
    elsewhere a target must be empty or new. After an exception, the new folder is removed, and the
    target is unchanged. `nbytes` is approximate, and checked against the free space.
    """
    with explained(target):
        check_link(target)
        target = Path(os.path.realpath(target))
        check_room(target, nbytes)
        occupied = _is_occupied(target, overwrite=overwrite)
        remove_abandoned(target.parent)
        with temporary(target, Path.mkdir) as staging:  # the old folder after an exchange
            if occupied:
                kept_files(target)
                _check_exchange(staging, target)
            yield staging
            occupied = _is_occupied(target, overwrite=overwrite)
            if occupied:
                for path in staging.iterdir():
                    keep_attributes(target / path.name, path)
                for name in kept_files(target):
                    os.link(target / name, staging / name)
            keep_attributes(target, staging)
            flush_folder(staging)
            if occupied:
                exchange(staging, target)
            else:
                if sys.platform == "win32" and target.exists():
                    target.rmdir()
                staging.rename(target)  # on POSIX, this replaces only an empty folder
        flush_folder(target.parent)


def _is_occupied(target: Path, *, overwrite: bool) -> bool:
    """Return whether the target is a folder with content; raise if it may not be replaced."""
    if not target.exists():
        return False
    if not target.is_dir():
        raise CheckpointError("{path} is a file. Specify a folder for the shards.", path=target)
    is_working = False
    with suppress(FileNotFoundError):  # the working folder was deleted
        is_working = Path(os.path.realpath(Path.cwd())).is_relative_to(target)
    if is_working:
        raise CheckpointError(
            "{path} is or contains the working folder of this program, and cannot be replaced. "
            "Specify a folder in it, or run the program in another folder.",
            path=target,
        )
    if os.path.ismount(target):
        raise CheckpointError(
            "{path} is a mount point, and cannot be replaced. Specify a folder in it.", path=target
        )
    if not any(target.iterdir()):
        return False
    if not overwrite:
        raise CheckpointError(
            "{path} is not empty. Choose another folder, or allow overwriting it.", path=target
        )
    return True


def _check_exchange(staging: Path, target: Path) -> None:
    """Check, with two empty folders, that the system can exchange folders."""
    one, other = staging / "1", staging / "2"
    one.mkdir()
    other.mkdir()
    try:
        exchange(one, other)
    except OSError as error:
        raise CheckpointError(
            "{path} is not empty, and folders cannot be exchanged atomically here: a crash "
            "could destroy both the old and the new checkpoint. Choose another folder.",
            path=target,
        ) from error
    one.rmdir()
    other.rmdir()
