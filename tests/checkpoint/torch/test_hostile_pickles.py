"""Hostile pickles: no payload runs, memory and time stay bounded, and their code is told."""

import json
import os
import pickle
import random
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from corpus_forms import (
    RAN,
    archive,
    call,
    dictionary,
    file,
    legacy,
    long,
    name,
    storage,
    tensor,
    text,
)
from corpus_hostile import (
    BOMBS,
    EXECUTED_BY_PICKLE,
    PLACES,
    PROTOCOL_4,
    TRICKS,
    spelled,
)
from corpus_payloads import yolib
from python_process import run_python

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.named_code import code_statement, runs_programs
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
            for key in opened.keys:
                opened.read_key(key)
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
    names = [*files, "modules of a library"]
    archive(PLACES["a parameter"](b"N"))(tmp_path)
    for index in range(len(names)):
        (tmp_path / str(index)).mkdir()
    for index, octets in enumerate(files.values()):
        archive(octets)(tmp_path / str(index))
    (tmp_path / "yolib.py").write_text("raise SystemExit('imported')")
    with yolib() as library:
        traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 3)))
        content = {"model": library.Net(), "graph": traced, "config": library.Config(a=1)}
        torch.save(content, tmp_path / str(len(files)) / "m.pt")
    output = run_python(OPEN_WATCHED, tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    unit = 1 if sys.platform == "darwin" else 1024
    found = {names[int(index)]: value for index, value in json.loads(output).items()}
    assert len(found) == len(names)
    assert {key: events for key, (events, _) in found.items() if events} == {}
    assert {k: grown for k, (_, grown) in found.items() if grown * unit > MAX_GROWTH_BYTES} == {}
    assert not (tmp_path / RAN).exists()


MAX_BYTES = 1_000_000
MAX_SECONDS = 10

VIEW = b"(" + storage() + b"K\x00K\x04\x85K\x01\x85\x89}t"
"""The arguments of a tensor."""
REBUILD = name("torch._utils._rebuild_tensor_v2")


def short(value: str) -> bytes:
    """Return the opcode of protocol 4 for a text of less than 256 bytes."""
    return b"\x8c" + bytes([len(value)]) + value.encode()


def repeated(octets: bytes, nbytes: int = 990_000, then: bytes = b"") -> bytes:
    """Return as many copies as fit, each followed by `then` at the end."""
    count = nbytes // (len(octets) + len(then))
    return octets * count + then * count


def listed(octets: bytes) -> bytes:
    return b"](" + octets + b"e"


def beside(octets: bytes) -> bytes:
    """Return a state dict, and these opcodes before it, whose results are dropped."""
    return octets + b"0" + dictionary(w=tensor())


def numbered(value: bytes, count: int) -> bytes:
    """Return a dictionary with one value, from the memo, under many names."""
    names = b"".join(short(f"{index:x}") + value for index in range(count))
    return b"}(" + names + b"u"


def modules(depth: int, width: int, parameters: int) -> bytes:
    """Return modules that contain each other `width` times, with one tensor under many names."""
    result = named(name("a.B")) + named(tensor(), 2)
    members = numbered(b"h\x02", parameters) + b"q\x030"
    inner = b"}q\x04" if not depth else b""
    result += members + inner + (b"0" if inner else b"")
    for _ in range(depth):
        children = b"}q\x05(" + b"".join(short(f"{i}") + b"h\x04" for i in range(width)) + b"u0"
        state = dictionary(_parameters=b"h\x03", _modules=b"h\x05" if _ else b"}", _buffers=b"}")
        result += (children if _ else b"") + b"h\x01)\x81" + state + b"bq\x040"
    return result + b"h\x04"


def deflated(octets: bytes) -> Callable[[Path], Path]:
    """Return a function that writes a compressed pickle beside noise, which stays large."""
    noise = random.Random(0).randbytes(900_000)
    return archive(octets, {"data/0": bytes(16), "noise": noise}, zipfile.ZIP_DEFLATED)


def named(octets: bytes, number: int = 1) -> bytes:
    """Return opcodes that leave a value in the memo only; `h` and the number is the value."""
    return octets + b"q" + bytes([number]) + b"0"


def states(count: int) -> bytes:
    """Return a dictionary of state dicts with one tensor."""
    state = dictionary(w=b"h\x01")
    return named(tensor()) + b"}(" + b"".join(short(f"{i:x}") + state for i in range(count)) + b"u"


NESTED = named(name("a.B"))
GETATTR = named(name("builtins.getattr"))
TENSORS = named(REBUILD) + named(VIEW, 2)
MANY = 3_000_000
IN_ATTRIBUTES = GETATTR + name("a.B") + repeated(b"q\x020h\x01h\x02U\x01x\x86R")
PASSED_AROUND = GETATTR + call("builtins.getattr", name("a.B"), text("x")) + b"0"
IN_ARGUMENTS = beside(b"N" + repeated(b"q\x020h\x01h\x02\x85R")).replace(b"N", NESTED + b"N", 1)
SHARING = numbered(b"h\x03", 60_000) + b"q\x020" + listed(repeated(b"h\x01)\x81h\x02b", 500_000))
LONG_NAME = b"X" + (900_000).to_bytes(4, "little") + b"b." * 450_000
COLLIDING = b"".join(long((2**61 - 1) * i) + b"N" for i in range(60_000))
OPTIMIZERS = listed(repeated(dictionary(state=b"}", param_groups=b"]"), 900_000))
SMALL = [tensor(storage(f"{i}", b"K\x01"), shape=b"K\x01\x85") for i in range(5200)]
PICKLES: dict[str, bytes] = {
    "dictionaries": listed(repeated(b"}")),
    "dictionaries with a value": listed(repeated(b"}K\x01Ns")),
    "dictionaries in each other": beside(b"}K\x01" * 240_000 + b"N" + b"s" * 240_000),
    "tuples in each other": beside(b")" + repeated(b"\x85")),
    "tuples in each other as a key": b"})" + repeated(b"\x85") + b"Ns",
    "calls": beside(NESTED + listed(repeated(b"h\x01)R"))),
    "calls in calls": beside(NESTED + b"N" + repeated(b"\x85", 900_000)),
    "calls in their arguments": IN_ARGUMENTS,
    "attributes of attributes": beside(IN_ATTRIBUTES),
    "getattr passed around": beside(PASSED_AROUND + listed(repeated(b"h\x01"))),
    "tensors": TENSORS + listed(repeated(b"h\x01h\x02R")),
    "one tensor by many names": named(tensor()) + numbered(b"h\x01", 100_000),
    "state dicts": states(50_000),
    "parameters of modules": modules(1, 0, 100_000),
    "modules in each other": modules(60, 2, 1),
    "modules with many names in each other": modules(8, 4, 60_000),
    "modules with long names": modules(40, 2, 1).replace(
        short("0"), b"X\x10\x27\0\0" + b"n" * 10_000
    ),
    "optimizers": dictionary(w=tensor(), o=OPTIMIZERS),
    "objects that share their attributes": named(tensor(), 3) + NESTED + SHARING,
    "names": listed(b"".join(name(f"a.{i:x}") for i in range(90_000))),
    "a long name": beside(name("a." + "b" * 980_000)),
    "long names": beside(
        named(short("a")) + named(LONG_NAME, 2) + listed(b"h\x01h\x02\x93" * 10_000)
    ),
    "numbers as keys": b"}(" + COLLIDING + b"u",
    "copies": beside(
        named(name("collections.OrderedDict"))
        + named(numbered(b"N", 80_000) + b"\x85", 2)
        + listed(b"h\x01h\x02R" * 40_000)
    ),
}
DEFLATED: dict[str, bytes] = {
    "marks of ten million": b"(" * 10_000_000,
    "nothing": listed(b"N" * 10_000_000),
    "dictionaries": listed(b"}" * MANY),
    "calls": beside(NESTED + listed(b"h\x01)R" * MANY)),
    "tensors": TENSORS + listed(b"h\x01h\x02R" * MANY),
    "state dicts": states(40_000),
    "lists of tensors": named(tensor()) + listed((b"](" + b"h\x01" * 9 + b"e") * 100_000),
}
SLOW: dict[str, Callable[[Path], Path]] = {
    **{kind: archive(octets) for kind, octets in PICKLES.items()},
    **{f"{kind}, compressed": deflated(octets) for kind, octets in DEFLATED.items()},
    "storages": archive(
        b"}(" + b"".join(short(f"{i}") + small for i, small in enumerate(SMALL)) + b"u",
        {f"data/{i}": bytes(4) for i in range(5200)},
        zipfile.ZIP_DEFLATED,
    ),
    "records": archive(
        dictionary(w=tensor()), {"data/0": bytes(16), **{f"{i}": b"" for i in range(9000)}}
    ),
    "pickles of a legacy file": legacy(beside(repeated(b"N0", 900_000))),
    "a plain pickle": file(b"\x80\x02" + repeated(b"}") + b"."),
    "text of a plain pickle": file(b"(" + repeated(b"I1\n") + b"."),
}


@pytest.mark.parametrize("kind", SLOW)
def test_a_small_file_opens_or_is_refused_soon(tmp_path, kind):
    path = SLOW[kind](tmp_path)
    assert path.stat().st_size < MAX_BYTES
    start = time.process_time()
    with suppress(CheckpointError), open_checkpoint(path) as opened:
        assert len(opened.module_types) == len(opened.tensors)
    assert time.process_time() - start < MAX_SECONDS


def full_width(text: str) -> str:
    """Return letters that Python reads as the ASCII letters of a text."""
    return "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in text)


RUNNING = [
    *("os.system", "posix.system", "nt.system", "subprocess.Popen", "builtins.exec"),
    *("builtins.eval", "builtins.__import__", "importlib.import_module", "runpy.run_path"),
    *("pty.spawn", "ctypes.CDLL", "__main__.os.system", "__main__.__builtins__.exec"),
    *("torch.os.system", "torch.utils.cpp_extension.subprocess.run", "torch.hub.load"),
    *("pickle.loads", "_pickle.loads", "torch.storage._load_from_bytes", "builtins.getattr"),
    *("operator.attrgetter", "sympy.simplify", "sympy.core.sympify.sympify", "types.CodeType"),
    *("jinja2.environment.Environment", "yaml.unsafe_load_all", "dill._dill._create_function"),
    *("mynet.Net.__init__.__globals__", "builtins.object.__subclasses__", "pip._internal.main"),
    *(full_width("os.system"), f"builtins.{full_width('exec')}"),
]
NOT_RUNNING = [
    *("argparse.Namespace", "omegaconf.DictConfig", "torch.torch_version.TorchVersion"),
    *("typing.Any", "mymodel.optimizer.Compiled", "models.yolo.Model", "functools.partial"),
    *("re._compile", "enum.Enum", "mymodel.code.Model", "lightning.eval.exec", "numpy.dtype"),
    *("numpy.random._pickle.__generator_ctor", "openfold.data.pdb.Chain", "networks.pip.Net"),
    *("mynet.globals.Settings", "models.nt.Transformer", "mynet.commands.Run"),
    *("pathlib.PosixPath", "torch.distributed.tensor.DTensor", "torch.nn.Linear"),
]


@pytest.mark.parametrize("name", RUNNING)
def test_names_that_run_programs_are_told_in_strong_words(name):
    assert runs_programs(["argparse.Namespace", name]) == (name,)
    statement = code_statement(["argparse.Namespace", name])
    assert "can run any program" in statement
    assert name in statement
    assert statement.count("weights_only=False") == 1


@pytest.mark.parametrize("name", NOT_RUNNING)
def test_other_names_are_told_plainly(name):
    assert runs_programs([name]) == ()
    statement = code_statement([name, name])
    assert f"names code of {name.partition('.')[0]}. Prune GUI runs none of it" in statement
    assert "program." not in statement


def test_a_file_without_names_needs_no_statement():
    assert code_statement([]) == ""


def test_source_code_in_the_file_is_told():
    assert "contains source code" in code_statement(["torch.fx.graph_module.reduce_graph_module"])


def test_long_and_many_names_make_a_short_statement():
    assert len(code_statement([f"{i}" * 900 + ".x" for i in range(900)])) < 590
    assert len(code_statement([f"os.{i}" * 900 for i in range(900)])) < 590
