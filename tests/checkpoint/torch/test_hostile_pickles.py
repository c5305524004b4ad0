"""Hostile pickles: no payload runs, nothing is imported, and memory and time stay bounded."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from corpus_forms import RAN, archive, dictionary, legacy, tensor, text
from corpus_hostile import (
    BOMBS,
    EXECUTED_BY_PICKLE,
    PLACES,
    PROTOCOL_4,
    TRICKS,
    spelled,
)

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError

STRONG = "can run any program"
FORMS = {"zip": archive, "legacy": legacy}


def outcome(octets: bytes, folder: Path, form: str = "zip") -> str:
    """Open a file with a pickle, read it all, and return the remarks or the refusal."""
    path = FORMS[form](octets)(folder)
    try:
        with open_checkpoint(path) as opened:
            for info in opened.tensors.values():
                opened.read(info.name)
            for warning in opened.warnings:
                assert warning.isprintable()
                assert len(warning) < 600
            assert opened.module_types.keys() == opened.tensors.keys()
            return " ".join(opened.warnings)
    except CheckpointError as error:
        message = str(error).partition("\n")[0]
        assert message.isprintable()
        assert len(message) < 600
        return message


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no module posix")
@pytest.mark.parametrize("spelling", EXECUTED_BY_PICKLE)
def test_a_call_that_pickle_executes_is_told_and_not_executed(tmp_path, spelling):
    payload = tmp_path / RAN
    octets = spelled("posix.mkdir", text(str(payload)))[spelling]
    with suppress(FileExistsError, TypeError):  # the second call, and the use of its result
        pickle.loads(PROTOCOL_4 + octets + b".")
    assert payload.is_dir()  # the payload is real
    payload.rmdir()
    for form in FORMS:
        assert STRONG in outcome(dictionary(a=tensor(), b=octets), tmp_path, form)
    assert not payload.exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", ["posix.mkdir", "builtins.eval", "logging.os.mkdir"])
def test_a_function_that_runs_programs_is_named_in_all_spellings(tmp_path, path, form):
    for spelling, octets in spelled(path, text(str(tmp_path / RAN))).items():
        message = outcome(dictionary(a=tensor(), b=octets), tmp_path, form)
        assert (STRONG in message, path in message) == (True, True), spelling
    assert not (tmp_path / RAN).exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", PLACES)
def test_a_function_that_runs_programs_is_named_in_all_places(tmp_path, place, form):
    calls = spelled("posix.mkdir", text(str(tmp_path / RAN)))
    for spelling in ("GLOBAL", "STACK_GLOBAL", "INST", "behind a partial", "only named"):
        message = outcome(PLACES[place](calls[spelling]), tmp_path, form)
        assert (STRONG in message, "posix.mkdir" in message) == (True, True), spelling
    assert not (tmp_path / RAN).exists()


@pytest.mark.parametrize("trick", TRICKS)
def test_code_that_runs_programs_is_told_however_it_is_reached(tmp_path, trick):
    said = "contains source code" if "graph module" in trick else STRONG
    assert said in outcome(dictionary(a=tensor(), b=TRICKS[trick]), tmp_path)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_structure_that_exhausts_memory_is_refused_or_opens(tmp_path, bomb):
    outcome(BOMBS[bomb], tmp_path)


OPEN_WATCHED = """
import json, resource, signal, sys
from pathlib import Path
import numba, torch
from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError

EVENTS = ("import", "exec", "compile", "open", "os.", "subprocess.", "socket.", "shutil.", "code.")
folder = Path(sys.argv[1])
open_checkpoint(folder / "m.pt").close()  # imports what opening needs
seen = None

def watch(event, arguments):
    if seen is not None and event.startswith(EVENTS):
        opened = str(arguments[0]) if event in ("open", "os.listdir") else ""
        if not opened.startswith((str(folder), "/proc/")) and not opened.isdigit():
            seen.append(f"{event} {arguments}"[:200])

sys.addaudithook(watch)
found = {}
for path in sorted(folder.glob("*/*.pt")):
    seen = []
    signal.alarm(20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with open_checkpoint(path) as opened:
            opened.module_types
    except CheckpointError:
        pass
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    found[path.parent.name], seen = (seen, grown), None
print(json.dumps(found))
"""
MAX_GROWTH_BYTES = 150_000_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs getrusage and alarm")
def test_opening_hostile_files_imports_and_runs_nothing_in_bounded_memory(tmp_path):
    files = {
        **{f"bomb {bomb}": octets for bomb, octets in BOMBS.items()},
        **{
            f"call {spelling}": dictionary(a=tensor(), b=octets)
            for spelling, octets in spelled("posix.mkdir", text(str(tmp_path / RAN))).items()
            if "lines" not in spelling  # a codec of Python is imported
        },
        **{f"trick {trick}": octets for trick, octets in TRICKS.items()},
    }
    names = list(files)
    archive(PLACES["a parameter"](b"N"))(tmp_path)
    for index, octets in enumerate(files.values()):
        (tmp_path / str(index)).mkdir()
        archive(octets)(tmp_path / str(index))
    done = subprocess.run(
        [sys.executable, "-c", OPEN_WATCHED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    unit = 1 if sys.platform == "darwin" else 1024
    found = {names[int(index)]: value for index, value in json.loads(done.stdout).items()}
    assert len(found) == len(files)
    assert {key: events for key, (events, _) in found.items() if events} == {}
    assert {k: grown for k, (_, grown) in found.items() if grown * unit > MAX_GROWTH_BYTES} == {}
    assert not (tmp_path / RAN).exists()
