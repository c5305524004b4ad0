"""Files that are read or saved under changes, lost pages, kills and full disks."""

import ctypes
import gc
import hashlib
import json
import mmap
import os
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch
from applied import applied
from corpus_forms import LEGACY
from python_process import ended_python
from safetensors.torch import save_file
from system_faults import raising

from prune_gui.checkpoint import FileOutput, TensorWriter, bus_errors, open_checkpoint
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.spans import SpanTensor, check_spans
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.checkpoint.write.atomic import replacing_together
from prune_gui.checkpoint.write.temp_files import TEMPORARY_SUFFIX
from prune_gui.errors import CheckpointError
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, export, resolve

SIZE = 4 * mmap.PAGESIZE
RECIPE = """
steps:
  - {method: l1_unstructured, targets: ["*"], scope: global, amount: 0.5}
"""
FORMATS = {
    "m.safetensors": safetensors.torch.save_file,
    "zip.pt": torch.save,
    "legacy.pt": partial(torch.save, **LEGACY),
}
MAPPED = ["m.safetensors", "zip.pt"]
linux_only = pytest.mark.skipif(not bus_errors.SUPPORTED, reason="needs Linux on 64 bits")
PAGES = 3
WATCHED = """
import ctypes, mmap, sys
from prune_gui.checkpoint.bus_errors import watch

lost = ctypes.c_uint64()
file = open(sys.argv[1], "r+b")
watched = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
watch(watched, lost)
"""
TRUNCATE = "file.truncate(mmap.PAGESIZE)\n"
RAW = RawTensor((2,), "float32")


def save(path, value: float, name: str = "m.safetensors") -> None:
    state = {"w": torch.full((SIZE,), value)}
    content = state if name == "m.safetensors" else {"model": state, "beside": [torch.ones(SIZE)]}
    FORMATS[name](content, path)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_replaced_during_opening_is_read_from_one_file_only(
    tmp_path, monkeypatch, name
):
    path, other = tmp_path / name, tmp_path / "other"
    save(path, 1.0, name)
    save(other, 2.0, name)
    first = hashlib.sha256(path.read_bytes()).hexdigest()
    original_init = Source.__init__

    def open_and_swap(self: Source, path) -> None:
        original_init(self, path)
        other.replace(path)

    monkeypatch.setattr(Source, "__init__", open_and_swap)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.read("w").unique().tolist() == [1.0]
        assert checkpoint.fingerprint(Monitor()) == f"sha256:{first}"


def test_the_fingerprint_is_that_of_the_file_while_tensors_are_viewed(on_disk):
    tensors = {name: torch.randn(n) for name, n in {"a": 90_001, "b": 5, "c": 300_000}.items()}
    checkpoint = on_disk({**tensors, "d": torch.ones(400_001, dtype=torch.uint8)})
    expected = f"sha256:{hashlib.sha256(checkpoint.path.read_bytes()).hexdigest()}"
    assert checkpoint.fingerprint(Monitor()) == expected
    views = [checkpoint.view(name) for name in checkpoint.tensors]
    read: list[int] = []
    assert checkpoint.fingerprint(Monitor(lambda done, _: read.append(done))) == expected
    assert read[-1] == checkpoint.path.stat().st_size
    assert torch.equal(views[0], checkpoint.read("a"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_tensor_is_a_copy_of_the_file_that_outlives_the_checkpoint(tmp_path, name):
    path = tmp_path / name
    save(path, 1.0, name)
    before = path.read_bytes()
    with open_checkpoint(path) as checkpoint:
        tensor = checkpoint.read("w")
        tensor.zero_()
    assert path.read_bytes() == before
    assert tensor.sum() == 0
    with pytest.raises(CheckpointError, match="closed"):
        checkpoint.read("w")


@linux_only
@pytest.mark.parametrize("name", MAPPED)
def test_truncation_during_a_read_does_not_end_the_process(tmp_path, name):
    path = tmp_path / name
    save(path, 1.0, name)
    with open_checkpoint(path) as checkpoint:
        values = checkpoint.view("w")
        os.truncate(path, mmap.PAGESIZE)
        assert float(values[-1]) == 0
        with pytest.raises(CheckpointError, match="changed by another program"):
            checkpoint.view("w")


@linux_only
@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("operation", ["resolve", "mask", "pruned_by"])
def test_truncation_between_a_check_and_the_use_gives_no_mask(
    tmp_path, monkeypatch, name, operation
):
    path = tmp_path / name
    save(path, 1.0, name)
    recipe = Recipe.from_yaml(RECIPE)
    with open_checkpoint(path) as checkpoint:
        resolution = resolve(recipe, checkpoint)
        check = Source.check

        def check_and_cut_off(self: Source) -> None:
            check(self)
            monkeypatch.setattr(Source, "check", check)
            os.truncate(path, mmap.PAGESIZE)

        monkeypatch.setattr(Source, "check", check_and_cut_off)
        with pytest.raises(CheckpointError, match="changed by another program"):
            resolve(recipe, checkpoint) if operation == "resolve" else getattr(
                resolution, operation
            )("w")


@linux_only
def test_pages_that_the_disk_cannot_read_are_reported(tmp_path, monkeypatch):
    """A truncated file with its size and time restored simulates a failing disk."""
    path = tmp_path / "m.safetensors"
    save(path, 1.0)
    status = path.stat()
    with open_checkpoint(path) as checkpoint:
        values = checkpoint.view("w")
        os.truncate(path, mmap.PAGESIZE)
        assert float(values[-1]) == 0
        os.truncate(path, status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(CheckpointError, match="the disk did not return all of its bytes"):
            checkpoint.check()


@linux_only
@pytest.mark.parametrize("name", MAPPED)
def test_truncation_during_a_save_leaves_no_new_file(tmp_path, monkeypatch, name):
    path, out = tmp_path / name, tmp_path / f"out-{name}"
    save(path, 1.0, name)
    with applied(path, Recipe()) as resolution:
        octets = TensorWriter.byte_chunks

        def cut_off(self: TensorWriter):
            for piece in octets(self):
                os.truncate(path, mmap.PAGESIZE)
                yield piece

        monkeypatch.setattr(TensorWriter, "byte_chunks", cut_off)
        with pytest.raises(CheckpointError, match="changed by another program"):
            export(resolution, out)
    assert [child.name for child in tmp_path.iterdir()] == [name]


@pytest.fixture
def cut_off(tmp_path):
    """Return a function that runs lines of Python with a mapped file: (exit code, output)."""
    path = tmp_path / "file"
    path.write_bytes(b"\x07" * PAGES * mmap.PAGESIZE)

    def run(lines: str) -> tuple[int, str]:
        done = ended_python(WATCHED + lines, path)
        return done.returncode, done.stdout + done.stderr

    return run


@linux_only
def test_the_handler_is_installed_again_after_another_one(cut_off):
    lines = (
        "import faulthandler; faulthandler.enable()\n"
        "again = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY); watch(again, lost)\n"
        f"{TRUNCATE}print(watched[-1], again[-1])"
    )
    assert cut_off(lines) == (0, "0 0\n")


@linux_only
def test_a_bus_error_in_another_mapping_ends_the_process_with_a_trace(cut_off):
    lines = (
        "import faulthandler; faulthandler.enable(); watch(watched, lost)\n"
        "other = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        f"{TRUNCATE}print(other[-1])"
    )
    status, output = cut_off(lines)
    assert status < 0
    assert "Bus error" in output


@linux_only
def test_a_deleted_mapping_is_no_longer_watched(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(mmap.PAGESIZE))
    handler = bus_errors._handler()
    gc.collect()
    watched = sum(map(bool, handler.spans))
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    bus_errors.watch(pages, ctypes.c_uint64())
    assert sum(map(bool, handler.spans)) == watched + bus_errors.FIELDS_PER_MAPPING
    del pages
    assert sum(map(bool, handler.spans)) == watched


def test_spans_may_be_equal_but_not_overlap_or_leave_the_file():
    check_spans({"a": SpanTensor(RAW, ((0, 8),)), "b": SpanTensor(RAW, ((0, 8),))}, 8)
    with pytest.raises(FalseClaimError, match="'b' are not where"):
        check_spans({"a": SpanTensor(RAW, ((0, 8),)), "b": SpanTensor(RAW, ((4, 12),))}, 12)
    with pytest.raises(FalseClaimError, match="'a' are not where"):
        check_spans({"a": SpanTensor(RAW, ((0, 8),))}, 7)


STEP = {"method": "l1_unstructured", "targets": ["*"], "amount": 0.5}

SAVE = """
import json, sys
import prune_gui
source, target, step = sys.argv[1:]
recipe = prune_gui.Recipe.model_validate({"steps": [json.loads(step)]})
with prune_gui.open_checkpoint(source) as checkpoint:
    resolution = prune_gui.resolve(recipe, checkpoint)
    print("ready", flush=True)
    prune_gui.export(resolution, target, overwrite=True)
"""

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")


def save_in_a_process(source: Path, target: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SAVE, str(source), str(target), json.dumps(STEP)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def temp_files(folder: Path) -> list[Path]:
    return list(folder.glob(f".*{TEMPORARY_SUFFIX}"))


@pytest.mark.very_slow
@posix_only
@pytest.mark.slow
def test_a_kill_at_any_time_leaves_the_old_target_or_the_new_one(tmp_path):
    source, target = tmp_path / "model.safetensors", tmp_path / "out" / "pruned.safetensors"
    save_file({f"w{i}": torch.randn(1 << 20) for i in range(12)}, source)
    target.parent.mkdir()
    target.write_bytes(b"old")
    moments, seen = random.Random(0), set()
    for _ in range(12):
        process = save_in_a_process(source, target)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0, 0.25))
        process.kill()
        process.communicate()
        seen.add("new" if target.read_bytes() != b"old" else "old")
        if "new" in seen:
            with open_checkpoint(target) as opened:
                kept = sum(int(opened.read(name).count_nonzero()) for name in opened.tensors)
            assert kept == 6 << 20
            target.write_bytes(b"old")
        assert len(temp_files(target.parent)) <= 1  # each run removes the files of the last one
    assert "old" in seen


def test_the_next_run_removes_temporary_files_of_a_killed_run(tmp_path):
    leftovers = [tmp_path / f".model.00{i}{TEMPORARY_SUFFIX}" for i in range(2)]
    leftovers[0].write_bytes(b"half")
    leftovers[1].mkdir()
    (leftovers[1] / "shard").write_bytes(b"half")
    other = tmp_path / f"mine{TEMPORARY_SUFFIX}"
    other.write_bytes(b"of somebody else: it does not begin with a dot")
    with replacing_together({tmp_path / "new": 1}, overwrite=False) as (temporary,):
        temporary.write_bytes(b"x")
    assert temp_files(tmp_path) == []
    assert other.exists()


@pytest.fixture
def opened(on_disk):
    return on_disk({"w": torch.arange(1.0, 9.0), "v": torch.ones(3)})


def test_a_changed_source_is_detected_before_anything_is_written(opened, tmp_path):
    resolution = resolve(Recipe(steps=[STEP]), opened)
    with opened.path.open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"\0\0\0\0")
    with pytest.raises(CheckpointError, match=r"model\.safetensors was changed"):
        export(resolution, tmp_path / "out.safetensors")
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors"}


@pytest.mark.parametrize("replacement", [True, False])
def test_a_replaced_or_deleted_source_is_still_readable(opened, tmp_path, replacement):
    resolution = resolve(Recipe(steps=[STEP]), opened)
    digest = hashlib.sha256(opened.path.read_bytes()).hexdigest()
    if replacement:
        save_file({"w": torch.zeros(8)}, tmp_path / "other.safetensors")
        (tmp_path / "other.safetensors").replace(opened.path)
    else:
        opened.path.unlink()
    export(resolution, tmp_path / "out.safetensors")
    with open_checkpoint(tmp_path / "out.safetensors") as written:
        assert written.read("w").tolist() == [0, 0, 0, 0, 5, 6, 7, 8]
        assert written.metadata["prune_gui.input"] == f"sha256:{digest}"


def little(_):
    return SimpleNamespace(free=3)


no_permission = raising(PermissionError(13, "Permission denied"))


@pytest.mark.parametrize(
    ("target", "words", "patches"),
    [
        ("nowhere/out.safetensors", "does not exist", {}),
        ("nowhere/shards", "does not exist", {}),
        ("model.safetensors", "already exists", {}),
        ("folder.pt", "is a folder", {}),
        ("out.onnx", "has no suffix of a known format", {}),
        ("", "is not empty", {}),
        *((to, "has 3 free", {"shutil.disk_usage": little}) for to in ("out.pt", "shards")),
        ("out.pt", "no permission", {"pathlib.Path.open": no_permission}),
        ("shards", "no permission", {"pathlib.Path.mkdir": no_permission}),
    ],
)
def test_an_invalid_target_is_refused_before_the_input_is_read(
    opened, tmp_path, monkeypatch, target, words, patches
):
    (tmp_path / "folder.pt").mkdir()
    resolution = resolve(Recipe(steps=[STEP]), opened)
    monkeypatch.setattr(opened, "fingerprint", lambda _: pytest.fail("the input was read"))
    for name, patch in patches.items():
        monkeypatch.setattr(name, patch)
    with pytest.raises(CheckpointError, match=words):
        export(resolution, tmp_path / target, shard_size=None if "." in target else 10)


def test_a_source_that_changes_during_writing_is_detected_at_the_end(opened, tmp_path):
    def chunks():
        yield torch.zeros(3)
        os.utime(opened.path, ns=(0, 0))

    weights = torch.zeros(8)
    entries = [
        TensorWriter("w", "float32", (8,), lambda: iter([weights])),
        TensorWriter("v", "float32", (3,), chunks),
    ]
    output = FileOutput(path=tmp_path / "out.safetensors", tensors=entries, template=opened)
    with pytest.raises(CheckpointError, match="was changed by another program"):
        output.write({}, Monitor())
    assert temp_files(tmp_path) == []


def test_the_file_is_closed_after_its_last_user(tmp_path):
    (tmp_path / "m.bin").write_bytes(b"1")
    source = Source(tmp_path / "m.bin")
    file = source.file
    assert not file.closed
    del source
    gc.collect()
    assert file.closed


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
@pytest.mark.parametrize(("limit", "mapped"), [(None, "abc"), (1 << 40, "abca")])
def test_few_spans_stay_mapped_where_address_space_is_limited(
    on_disk, calls_of, monkeypatch, limit, mapped
):
    import resource

    if limit is not None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    checkpoint = on_disk({name: torch.full((300, 300), ord(name)) for name in "abc"})
    seen = calls_of(checkpoint.source, "_map")
    for name in "abca":
        assert checkpoint.view(name)[0, 0] == ord(name)
    assert len(seen) == len(mapped)
