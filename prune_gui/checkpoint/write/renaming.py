"""Renames that the standard library does not offer: without replacing, and as an exchange."""

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
"""Error codes of a system or file system that does not support an operation."""


def rename_no_replace(source: Path, target: Path) -> None:
    """Rename a file unless `target` exists.

    Linux and Windows do this atomically. Elsewhere the file gets a hard link at `target`, and its
    old name is removed. On file systems that support neither (exFAT on macOS), the existence of the
    target is checked before the rename; another program could create the target in between.
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
        with suppress(OSError):  # the target is complete; a second link to it is harmless
            source.unlink()
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
    source.rename(target)


def exchange(one: Path, other: Path) -> None:
    """Exchange two files or folders atomically."""
    _renameat2(one, other, RENAME_EXCHANGE)


def _renameat2(source: Path, target: Path, flags: int) -> None:
    function = _renameat2_function()
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    sys.audit("os.rename", source, target, -1, -1)
    if function(AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(target), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fspath(source), None, os.fspath(target))


@cache
def _renameat2_function() -> Any | None:  # noqa: ANN401 - a function of the C library
    """Return renameat2 of the C library; None on other systems or with an older library."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
