"""`system_faults` makes exactly the chosen system call fail."""

from __future__ import annotations

import errno
import os

import pytest
from system_faults import KILL, SHORT, Fault, Killed, system_calls


def write(folder):
    """Write a temporary file, flush it and rename it."""
    temp_file = folder / "temp_file"
    try:
        with temp_file.open("wb") as file:
            file.write(b"new")
            file.flush()
            os.fsync(file.fileno())
        temp_file.replace(folder / "file")
    except BaseException:
        temp_file.unlink(missing_ok=True)
        raise


def test_every_call_of_a_block_is_counted_in_order(tmp_path):
    with system_calls() as calls:
        write(tmp_path)
    assert calls == ["open", "write", "fsync", "close", "replace"]
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("number", range(5))
def test_only_the_call_of_the_given_number_fails(tmp_path, number):
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as caught:  # noqa: SIM117
        with system_calls(Fault(number, errno.EIO)):
            write(tmp_path)
    assert caught.value.errno == errno.EIO
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", range(5))
def test_a_killed_process_runs_no_cleanup(tmp_path, number):
    with pytest.raises(Killed), system_calls(Fault(number, KILL)):
        write(tmp_path)
    remaining = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert remaining == ({} if number == 0 else {"temp_file": b"" if number == 1 else b"new"})


def test_a_short_write_or_read_takes_half(tmp_path):
    path = tmp_path / "file"
    with system_calls(Fault(1, SHORT)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        assert os.write(descriptor, b"1234") == 2
        os.close(descriptor)
    with system_calls(Fault(1, SHORT)), path.open("rb", buffering=0) as file:
        assert file.read(2) == b"1"
    with system_calls(Fault(1, SHORT)) as calls:
        path.write_bytes(b"123456")
    assert calls == ["open", "write", "write", "close"]
    assert path.read_bytes() == b"123456"
