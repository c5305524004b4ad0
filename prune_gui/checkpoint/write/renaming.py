"""Renames that the standard library does not offer: without replacing, and exchanging two."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

AT_FDCWD: Final = -100
RENAME_NOREPLACE: Final = 1
RENAME_EXCHANGE: Final = 2
UNSUPPORTED: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
"""What a file system answers that does not know an operation."""


def rename_no_replace(source: Path, target: Path) -> None:
    """Rename a file, unless there is something at `target`.

    Linux does both in one step, as Windows does. Elsewhere the file gets a second name, a hard
    link, before the first is removed. File systems that can do neither (exFAT on macOS) are asked
    first and renamed on then: another program could create the target between the two.

    Raises:
        FileExistsError: there is something at `target`; nothing was changed.
        OSError: the file cannot be renamed.
    """
    if sys.platform == "win32":
        source.rename(target)
        return
    try:
        _renameat2(source, target, RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    else:
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    else:
        with suppress(OSError):  # the target is complete; a second name of it does no harm
            source.unlink()
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
    source.rename(target)


def exchange(one: Path, other: Path) -> None:
    """Let two files or folders change places in one step.

    Raises:
        OSError: the system or the file system cannot do that; only Linux can.
    """
    _renameat2(one, other, RENAME_EXCHANGE)


def _renameat2(source: Path, target: Path, flags: int) -> None:
    call = _system_call()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    sys.audit("os.rename", source, target, -1, -1)
    if call(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fspath(source), None, os.fspath(target))


@cache
def _system_call() -> Any | None:  # noqa: ANN401 - a function of the C library
    """Return renameat2 of the C library; None on other systems, and with an older library."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
