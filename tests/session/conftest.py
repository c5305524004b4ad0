"""A working folder that was deleted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest
from system_faults import raising


@pytest.fixture
def delete_working_folder(monkeypatch) -> Callable[[], None]:
    """Return a function that makes Python report that the working folder was deleted.

    No folder is deleted: without one, Python 3.13.0 to 3.13.2 raises SystemError for each missing
    attribute of a module, if started with ``-c``, as the workers of pytest-xdist are. See
    https://github.com/python/cpython/issues/130932.
    """
    return lambda: monkeypatch.setattr(
        os, "getcwd", raising(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    )
