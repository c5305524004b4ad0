"""State files under damage, concurrent writes and failing system calls."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from system_faults import ERRNOS, KILL, SHORT, Fault, Killed, raising, system_calls

from prune_gui.session import state_file
from prune_gui.session.state_file import LOCK, StateFile, StatePath

OLD, NEW = {"a": "old"}, {"a": "old", "b": "new"}
DAMAGED = [b"", b"{", b"[]", b"\x00", b'{"texts": 3, "number": "x"}', b"[" * 100_000, b"9" * 5000]

ADD_MANY = """
import sys
from pathlib import Path
from prune_gui.session.state_file import StateFile
from pydantic import BaseModel

class Kept(BaseModel):
    texts: dict[str, str] = {}

file = StateFile(Path(sys.argv[1]), Kept, 1 << 20)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    added = {f"{sys.argv[2]}.{number}": "x"}
    assert file.update(lambda kept: Kept(texts=(kept.texts if kept else {}) | added))
"""

posix_only = pytest.mark.skipif(os.name == "nt", reason="needs FIFOs and devices")


class Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    texts: dict[str, str] = {}
    path: StatePath = Path()


@pytest.fixture
def file(tmp_path):
    """Return a state file that does not exist yet, in a folder that does not exist yet."""
    return StateFile(tmp_path / "state" / "kept.json", Kept, 1 << 20)


def put(file, texts):
    file.path.parent.mkdir(exist_ok=True)
    for path in file.path.parent.iterdir():
        path.unlink()
    if texts is not None:
        assert file.save(Kept(number=1, texts=texts))


def names(file):
    return sorted(path.name for path in file.path.parent.iterdir() if path.name != LOCK)


def add(file):
    return file.update(lambda kept: Kept(number=1, texts=(kept.texts if kept else {}) | NEW))


@pytest.mark.parametrize("before", [None, OLD])
@pytest.mark.parametrize("kind", [*ERRNOS, SHORT])
def test_a_failing_system_call_leaves_the_old_state_or_the_new(file, before, kind, caplog):
    put(file, before)
    with system_calls() as calls:
        add(file)
    assert {"write", "fsync"} <= set(calls)
    for number in range(len(calls)):
        put(file, before)
        caplog.clear()
        with system_calls(Fault(number, kind)):
            written = add(file)
        where = f"{number}: {calls[number]}"
        found = file.load()
        if written is not None:
            assert found == written, where
            assert not caplog.records, where
        else:
            assert found in (before and Kept(number=1, texts=before), Kept(number=1, texts=NEW))
            assert [record.levelname for record in caplog.records] == ["WARNING"], where
        assert names(file) in ([], [file.path.name]), where


@pytest.mark.parametrize("before", [None, OLD])
def test_a_killed_write_leaves_the_old_state_or_the_new_and_the_next_cleans_up(file, before):
    put(file, before)
    with system_calls() as calls:
        add(file)
    for number in range(len(calls)):
        put(file, before)
        with pytest.raises(Killed), system_calls(Fault(number, KILL)):
            add(file)
        found = file.load()
        assert (found and found.texts) in (before, NEW), f"{number}: {calls[number]}"
        assert add(file) == Kept(number=1, texts=NEW)
        assert names(file) == [file.path.name], f"{number}: {calls[number]}"


def test_concurrent_updates_by_processes_lose_nothing(file):
    writers, each = 3, 12
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ADD_MANY, str(file.path), str(number), str(each)],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for number in range(writers)
    ]  # fmt: skip
    for process in processes:
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[1] for process in processes] == [b""] * writers
    kept = json.loads(file.path.read_bytes())["texts"]
    assert len(kept) == writers * each


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_set_aside_by_reading_and_by_updating(file, content, caplog):
    for number, act in enumerate((file.load, lambda: add(file)), start=1):
        file.path.parent.mkdir(exist_ok=True)
        file.path.write_bytes(content)
        caplog.clear()
        assert act() == (None if number == 1 else Kept(number=1, texts=NEW))
        aside = file.path.with_name(f"{file.path.name}.damaged-{number}")
        assert aside.read_bytes() == content
        [record] = caplog.records
        assert file.path.name in record.getMessage()
        assert aside.name in record.getMessage()
        assert len(record.getMessage()) < 1000
    assert file.load() == Kept(number=1, texts=NEW)


def test_any_number_of_damaged_files_is_kept(file):
    file.path.parent.mkdir()
    for number in range(1, 1001):
        file.path.with_name(f"{file.path.name}.damaged-{number}").touch()
    file.path.write_bytes(b"{")
    assert add(file) == Kept(number=1, texts=NEW)
    assert file.path.with_name(f"{file.path.name}.damaged-1001").read_bytes() == b"{"


def test_valid_fields_of_a_damaged_file_are_used_and_it_is_set_aside(file, caplog):
    file.path.parent.mkdir()
    text = json.dumps({"number": 1, "texts": {"a": 3, "b": "new", "c": None}})
    file.path.write_text(text)
    assert file.load() == Kept(number=1, texts={"b": "new"})
    assert names(file) == [file.path.name]
    assert file.update(lambda kept: kept) == Kept(number=1, texts={"b": "new"})
    assert file.path.with_name(f"{file.path.name}.damaged-1").read_text() == text
    caplog.clear()
    assert file.load() == Kept(number=1, texts={"b": "new"})
    assert not caplog.records


@pytest.mark.parametrize("kind", ERRNOS)
def test_a_damaged_file_is_not_lost_when_a_system_call_fails(file, kind, caplog):
    text = json.dumps({"number": 1, "texts": {"a": "old", "c": None}}).encode()

    def damage():
        put(file, None)
        file.path.write_bytes(text)

    damage()
    with system_calls() as calls:
        add(file)
    for number in range(len(calls)):
        damage()
        with system_calls(Fault(number, kind)):
            add(file)
        contents = [path.read_bytes() for path in file.path.parent.iterdir() if path.name != LOCK]
        assert text in contents, f"{number}: {calls[number]}"
        found = file.load()
        assert found is not None, f"{number}: {calls[number]}"
        assert found.texts in (OLD, NEW)


@posix_only
def test_irregular_files_are_set_aside_and_never_read(file, caplog):
    file.path.parent.mkdir()
    os.mkfifo(file.path)
    assert file.load() is None
    file.path.symlink_to("/dev/zero")
    assert file.load() is None
    file.path.mkdir()
    assert add(file) == Kept(number=1, texts=NEW)
    aside = [file.path.with_name(f"{file.path.name}.damaged-{number}") for number in (1, 2, 3)]
    assert aside[0].is_fifo()
    assert aside[1].is_symlink()
    assert aside[2].is_dir()
    assert Path("/dev/zero").exists()


def test_files_over_the_size_limit_are_neither_read_nor_written(file, caplog):
    file.path.parent.mkdir()
    with file.path.open("wb") as junk:
        junk.truncate(5 << 30)
    assert file.load() is None
    assert names(file) == [f"{file.path.name}.damaged-1"]
    put(file, OLD)
    assert not file.save(Kept(number=1, texts={"a": "x" * file.limit}))
    assert "larger than" in caplog.text
    assert file.load() == Kept(number=1, texts=OLD)


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="needs a user without all rights")
def test_a_file_without_read_permission_is_neither_set_aside_nor_overwritten(file, caplog):
    put(file, OLD)
    file.path.chmod(0)
    assert file.load() is None
    assert add(file) is None
    file.path.chmod(0o600)
    assert file.load() == Kept(number=1, texts=OLD)


def test_a_file_with_a_read_error_is_neither_set_aside_nor_overwritten(file, caplog):
    put(file, OLD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            state_file, "read_regular", raising(OSError(errno.EIO, os.strerror(errno.EIO)))
        )
        assert file.load() is None
        assert add(file) is None
    assert len(caplog.records) == 2
    assert names(file) == [file.path.name]
    assert file.load() == Kept(number=1, texts=OLD)


def test_waiting_for_the_lock_has_a_timeout(file, caplog, monkeypatch):
    put(file, OLD)
    monkeypatch.setattr(state_file, "LOCK_TIMEOUT_S", 0.05)
    with state_file._locked(file.path.parent):
        assert add(file) is None
    assert "it is locked by another program" in caplog.text
    assert file.load() == Kept(number=1, texts=OLD)
    assert add(file) is not None


@posix_only
def test_a_file_system_without_locks_is_used_without_them(file, monkeypatch):
    import fcntl

    monkeypatch.setattr(fcntl, "flock", raising(OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
    assert add(file) == Kept(number=1, texts=NEW)
    assert file.load() == Kept(number=1, texts=NEW)


@posix_only
def test_paths_and_texts_that_are_not_utf_8_round_trip(file):
    state = Kept(number=1, texts={"\udcff": "\udc80"}, path=Path("/a\udcff"))
    assert file.save(state)
    assert file.load() == state


def test_a_path_with_a_null_character_is_invalid(file, caplog):
    file.path.parent.mkdir()
    file.path.write_text(json.dumps({"number": 1, "path": "a\0b"}))
    assert file.load() == Kept(number=1)
    assert "not a path" in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["number", "texts", "path", "a"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40))
def test_no_content_causes_an_error_or_is_lost(file, monkeypatch, content):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    put(file, None)
    file.path.write_bytes(content)
    read = file.load()
    assert content in [path.read_bytes() for path in file.path.parent.iterdir()]
    assert add(file) is not None
    contents = [path.read_bytes() for path in file.path.parent.iterdir()]
    assert content in contents or read is not None
