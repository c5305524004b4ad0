"""Jobs in parts: the bytes of a single run, whatever the number of parts, and killed ones too."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from applied import exported
from object_stores import forget_connections, s3_contents, serving_s3, use_s3
from sharded_files import tied_weights, write_shards
from written_files import contents

from prune_gui import parallel
from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import Cancelled, JobError, PartsMissingError
from prune_gui.monitor import Monitor
from prune_gui.pruning.predicates.unit_cuts import PrunedUnits
from prune_gui.pruning.selection.histogram_cache import DigitHistogram
from prune_gui.pruning.selection.radix_select import Cut, RowCuts
from prune_gui.pruning.selection.row_column_scores import BlockSums
from prune_gui.recipe import Recipe, resolve, shares
from prune_gui.recipe.exporting import write
from prune_gui.recipe.output import OutputOptions
from prune_gui.recipe.shares import (
    MAGIC,
    Share,
    SharedJob,
    merge,
    read_share,
    run_part,
    write_share,
)

pytestmark = pytest.mark.usefixtures("reopened")
STEPS = [
    {"method": "l1_unstructured", "scope": "global", "amount": 0.3},
    {"method": "lamp", "amount": 0.2},
    {"method": "l1_unstructured", "scope": "row", "amount": 0.3},
]
FORGED_RECIPES = [
    *STEPS,
    {"method": "ln_structured", "amount": 0.3, "n": 2, "dim": 0},
    {"method": "balanced", "amount": 0.3},
]
RECIPE = Recipe(steps=[{"targets": ["*weight"], **step} for step in STEPS])


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 1000)


@pytest.fixture
def sharded(tmp_path) -> Path:
    shards = {
        f"model-{number}.safetensors": {
            f"{layer}.{number}.weight": tied_weights((60, 128), torch.float32) for layer in "abc"
        }
        for number in (1, 2)
    }
    write_shards(tmp_path / "sharded", shards)
    return tmp_path / "sharded"


@pytest.fixture
def job(sharded, tmp_path) -> SharedJob:
    with open_checkpoint(sharded) as checkpoint:
        digest = checkpoint.files_digest().hex()
    return SharedJob(
        parts=2,
        recipe=RECIPE.to_yaml(),
        folder=str(tmp_path),
        checkpoint=str(sharded),
        digest=digest,
        state=None,
        out=str(tmp_path / "out"),
        options=OutputOptions(),
    )


@pytest.fixture
def work(tmp_path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def run_in_turn(job: SharedJob, work: Path) -> int:
    """Run all parts until they are done; return the number of rounds."""
    for count in range(1, 40):
        missing = 0
        for part in range(1, job.parts + 1):
            try:
                run_part(job, work, part, Monitor(), wait=False)
            except PartsMissingError:
                missing += 1
        if not missing:
            return count
    raise AssertionError("the parts are never done")


def alone(job: SharedJob, out: Path) -> dict[str, bytes]:
    with open_checkpoint(job.checkpoint) as checkpoint:
        write(resolve(RECIPE, checkpoint), out, job.options, Monitor())
    return contents(out)


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("form", ["finalized", "reparametrized"])
@pytest.mark.parametrize("shard_size", [None, 50_000])
def test_parts_write_the_bytes_of_a_single_run(job, work, tmp_path, parts, form, shard_size):
    job = replace(job, parts=parts, options=OutputOptions(form, shard_size=shard_size))
    run_in_turn(job, work)
    assert not Path(job.out).exists()
    merge(work, Monitor())
    assert contents(Path(job.out)) == alone(job, tmp_path / "alone")
    assert not work.exists()


@pytest.mark.slow
def test_merge_uploads_what_the_parts_wrote(job, work, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    forget_connections()
    with serving_s3() as server:
        url = use_s3(server, "results", monkeypatch).url
        job = replace(job, out=f"{url}/out")
        run_in_turn(job, work)
        assert s3_contents(server, "results") == ({}, [])
        merge(work, Monitor())
        objects, _ = s3_contents(server, "results")
    forget_connections()
    expected = alone(job, tmp_path / "alone")
    assert objects == {f"out/{name}": file for name, file in expected.items()}
    assert not work.exists()


def test_a_single_file_is_written_by_merge(job, work, tmp_path):
    whole = tmp_path / "whole.safetensors"
    exported(job.checkpoint, whole, Recipe())
    with open_checkpoint(whole) as checkpoint:
        digest = checkpoint.files_digest().hex()
    out = tmp_path / "out.safetensors"
    job = replace(job, checkpoint=str(whole), digest=digest, out=str(out))
    run_in_turn(job, work)
    (work / "model.safetensors").touch()
    merge(work, Monitor())
    assert [path.name for path in work.iterdir()] == ["model.safetensors"]
    exported(whole, tmp_path / "alone.safetensors", RECIPE)
    assert out.read_bytes() == (tmp_path / "alone.safetensors").read_bytes()


def test_parts_that_wait_need_one_run_each(job, work, tmp_path, monkeypatch):
    monkeypatch.setattr(shares, "POLL_S", 0.01)
    parts = [
        threading.Thread(target=run_part, args=(job, work, part, Monitor()), kwargs={"wait": True})
        for part in (1, 2)
    ]
    for part in parts:
        part.start()
    for part in parts:
        part.join()
    merge(work, Monitor())
    assert contents(Path(job.out)) == alone(job, tmp_path / "alone")


def test_the_share_of_a_stage_is_done_once(job, work):
    with pytest.raises(PartsMissingError, match="Stage 1 of the job needs part 2 of 2"):
        run_part(job, work, 1, Monitor(), wait=False)
    [share] = work.glob("*.share")
    written = share.stat()
    with pytest.raises(PartsMissingError):
        run_part(job, work, 1, Monitor(), wait=False)
    assert [*work.glob("*.share")] == [share]
    assert share.stat() == written


def test_merge_names_the_parts_that_are_missing(job, work):
    with pytest.raises(PartsMissingError):
        run_part(replace(job, parts=3), work, 2, Monitor(), wait=False)
    with pytest.raises(PartsMissingError, match="part 1, 3 of 3"):
        merge(work, Monitor())
    assert not Path(job.out).exists()
    assert work.exists()


def test_a_waiting_part_can_be_cancelled(job, work):
    stop = threading.Event()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    with pytest.raises(Cancelled):
        run_part(job, work, 1, Monitor(cancel=stop), wait=True)
    timer.join()


def test_the_folder_of_another_job_is_refused(job, work):
    with pytest.raises(PartsMissingError):
        run_part(job, work, 1, Monitor(), wait=False)
    with pytest.raises(JobError, match="is the work folder of another job"):
        run_part(replace(job, parts=3), work, 2, Monitor(), wait=False)


def test_a_checkpoint_that_changed_is_refused(job, work, sharded):
    os.utime(sharded / "model-1.safetensors", (0, 0))
    with pytest.raises(JobError, match="was changed since the job began"):
        run_part(job, work, 1, Monitor(), wait=False)


def test_a_folder_without_a_job_is_refused(work):
    with pytest.raises(JobError, match=r"job\.json cannot be read"):
        merge(work, Monitor())


def test_the_folder_of_another_version_is_refused(job, work):
    job.save(work)
    (work / "stage-0001-part-0001.pickle").touch()
    for use in (
        lambda: merge(work, Monitor()),
        lambda: run_part(job, work, 1, Monitor(), wait=False),
    ):
        with pytest.raises(JobError, match=r"made by another version of the program\. Delete"):
            use()


@pytest.mark.parametrize(
    "change",
    [
        *({"parts": parts} for parts in (0, 10**9, "2", 1.0, None, True)),
        *({"recipe": ["a"]}, {"options": None}, {"options": {"form": "other"}}),
        *({"options": {"overwrite": 1}}, {"options": {"shard_size": "1"}}),
    ],
)
def test_a_job_with_other_values_is_refused(job, work, change):
    job.save(work)
    (work / "job.json").write_text(json.dumps(asdict(job) | change))
    with pytest.raises(JobError, match=r"job\.json cannot be read"):
        merge(work, Monitor())


def foreign_values(value: object) -> list[object]:
    """Return results of other forms, and values of the same form that do not fit the task."""
    counts = np.arange(1, 4)
    others = [
        *(None, True, -1, 1 << 63, 0.5, float("nan"), "", (), [], (1,), (0, 1), (0, 1, 2.5)),
        *(slice(None), slice(0, 1 << 62), counts, counts / 1, np.zeros((1, 0))),
        *(Cut(0, -1, 0), Cut(1 << 63, 1 << 62, 1 << 62), DigitHistogram.of(counts)),
        RowCuts(counts.astype(np.uint32), counts),
        RowCuts(counts[:0].astype(np.uint32), counts[:0]),
        *(PrunedUnits(np.ones(n, bool), None, np.ones(n, np.int64)) for n in (0, 1, 10_000)),
        BlockSums(counts / 1, counts, counts / 1, 4),
        (1 << 62, DigitHistogram.of(counts)),
        (0, DigitHistogram(np.array([65535], np.uint16), np.array([1 << 62]))),
        (0, (counts, counts, counts / 1)),
        (0, (counts + (1 << 40), counts, counts / 1)),
        (slice(0, 3), counts / 1),
    ]
    if isinstance(value, tuple):
        for at, item in enumerate(value):
            others += [(*value[:at], other, *value[at + 1 :]) for other in (-1, None, counts, ())]
            if isinstance(item, tuple):
                others.append((*value[:at], item[::-1], *value[at + 1 :]))
    if isinstance(value, np.ndarray):
        others += [value[:0], -value, np.repeat(value, 2), value.astype("f2")]
    return others


@pytest.mark.slow
@pytest.mark.parametrize("recipe", FORGED_RECIPES, ids=lambda recipe: str(recipe["method"]))
def test_forged_results_are_one_refusal_or_other_weights(job, work, tmp_path, recipe):
    job = replace(job, recipe=Recipe(steps=[{"targets": ["*weight"], **recipe}]).to_yaml())
    run_in_turn(job, work)
    refused = 0
    for share in sorted(work.glob("*-part-0001.share")):
        honest = read_share(share)
        forgeries = foreign_values(honest.results[0]) if honest.results else []
        for forgery in forgeries:
            copy = shutil.copytree(work, tmp_path / "copy")
            try:
                write_share(
                    copy / share.name, honest._replace(results=[forgery, *honest.results[1:]])
                )
                merge(copy, Monitor())
            except JobError:
                refused += 1
            shutil.rmtree(copy, ignore_errors=True)
            shutil.rmtree(job.out, ignore_errors=True)
    assert refused >= 20


@pytest.mark.slow
@pytest.mark.very_slow
def test_parts_that_are_killed_in_each_stage_change_no_byte(job, sharded, work, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.to_yaml())
    program = [sys.executable, "-m", "prune_gui"]
    arguments = [str(recipe), str(sharded), "-o", job.out, "--work", str(work), "--shard-size"]
    arguments += ["50kB", "--wait"]

    def started(part: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*program, "part", f"{part}/2", *arguments], stdout=subprocess.DEVNULL
        )

    kills = 0
    with started(1) as first:
        while True:
            stages = len([*work.glob("*-part-0002.share")])
            second = started(2)
            while second.poll() is None and len([*work.glob("*-part-0002.share")]) == stages:
                time.sleep(0.005)
            if second.poll() is not None:
                break
            second.kill()
            second.wait()
            kills += 1
        assert second.returncode == 0
        assert first.wait(60) == 0
    assert kills >= len(STEPS)
    subprocess.run([*program, "merge", str(work)], check=True, stdout=subprocess.DEVNULL)
    job = replace(job, options=OutputOptions(shard_size=50_000))
    assert contents(Path(job.out)) == alone(job, tmp_path / "alone")


COUNTS = np.arange(6).reshape(2, 3)
RESULTS = [
    *(DigitHistogram.of(COUNTS[0]), Cut(3, -1, 2), None, "digits", 5, True, (1, 2.5, float("inf"))),
    DigitHistogram.sum([DigitHistogram.of(COUNTS[0]), DigitHistogram.of(COUNTS[1])], keep=True),
    RowCuts(COUNTS[0].astype(np.uint32), COUNTS[1]),
    PrunedUnits(COUNTS[0] > 1, COUNTS[1] / 2, COUNTS[0]),
    BlockSums(COUNTS[0] / 1, COUNTS[1], COUNTS[1] / 1, 4),
    (slice(0, 3), COUNTS[:, ::2], np.float32([[1.5]]), [1 << 63, -4]),
]


class Payload:
    def __reduce__(self):
        return os.mkdir, ("ran",)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "share"


def forged(plain, arrays=None):
    """Return a file with a valid digest, such as an attacker writes."""
    text = plain if isinstance(plain, str) else json.dumps(plain)
    octets = safetensors.numpy.save(arrays or {}, {"share": text})
    return MAGIC + hashlib.sha256(octets).digest() + octets


def forged_result(result, **arrays):
    return forged(["tuple", 1, ["list", result], 0], arrays)


def test_all_results_are_read_back(path):
    write_share(path, Share(7, RESULTS, 9))
    read = read_share(path)
    assert (read.tasks, read.nbytes) == (7, 9)
    assert repr(read.results) == repr(RESULTS)


A, B, SHORT = np.arange(3), np.array([True, False, True]), np.arange(2)
U16 = A.astype(np.uint16)
NESTED = "[" * 100_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        pickle.dumps((1, [Payload()], 0)),
        MAGIC + pickle.dumps((1, [Payload()], 0)),
        *(forged(plain) for plain in (
            *("", "{", "null", "NaN", NESTED, NESTED + "]" * 100_000, "9" * 5000, {}, []),
            *(["tuple", 1, 2], ["tuple", 1, {}, 0], ["tuple", "1", ["list"], 0]),
            *(["list", 1, ["list"], 0.5], ["tuple", True, ["list"], 0], ["tuple", -1, ["list"], 0]),
        )),
        *(forged_result(result) for result in (
            {}, [], [[]], [1], ["set", 1], ["Payload"], ["os.mkdir", "ran"], 1 << 64, -(1 << 64),
            ["array"], ["array", "a"], ["array", 0], ["slice", 1, 2], ["slice", -1, 2, None],
            ["slice", "a", None, None], ["Cut", 1, 2, 3], ["Cut", 1, 2, 3, 0, 0],
            *(["Cut", threshold, 2, 3, 0] for threshold in (-1, 1.5, None)), ["Cut", 1, -2, 3, 0],
            ["Share", 1, ["list"], 0], ["DigitHistogram", ["tuple"], ["tuple"], ["tuple"]],
        )),
        forged_result(["tuple", ["array", "a"], ["array", "a"]], a=A),
        *(forged_result([name, ["array", "a"], ["array", "b"], *rest], a=a, b=b)
          for name, rest, a, b in (
            ("RowCuts", [], A, A), ("RowCuts", [], U16, SHORT), ("RowCuts", [], U16, A / 1),
            ("RowCuts", [], U16.reshape(1, 3), A.reshape(1, 3)), ("RowCuts", [3], U16, A),
            ("DigitHistogram", [["tuple"]], A, A + 1), ("DigitHistogram", [["tuple"]], U16, A),
            ("DigitHistogram", [["tuple"]], U16, SHORT + 1),
            ("DigitHistogram", [["tuple", 1]], U16, A + 1), ("DigitHistogram", [None], U16, A + 1),
            ("DigitHistogram", [["tuple"]], U16[::-1], A + 1), ("PrunedUnits", [1, ""], B, A / 1),
            ("PrunedUnits", [["slice", 0, 1, None], ""], B, A / 1),
            ("BlockSums", [["tuple"], 4], A / 1, A), ("BlockSums", [1, 4], A / 1, A),
        )),
        *(forged_result(["PrunedUnits", ["array", "a"], None, ["array", "b"], source], a=a, b=b)
          for a, b, source in ((A, A, ""), (B, SHORT, ""), (B, -A, ""), (B, A, 3), (B, A / 1, ""))),
    ],
)  # fmt: skip
def test_a_file_with_anything_else_is_refused_and_nothing_runs(path, content):
    path.write_bytes(content)
    with pytest.raises(JobError, match="is damaged"):
        read_share(path)
    assert [*path.parent.iterdir()] == [path]


def test_every_cut_and_every_changed_byte_of_a_file_is_refused(path):
    write_share(path, Share(1, [Cut(1, 2, 3), np.arange(3)], 4))
    whole = path.read_bytes()
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for octets in [*(whole[:length] for length in range(len(whole))), *changed]:
        path.write_bytes(octets)
        with pytest.raises(JobError, match="is damaged"):
            read_share(path)


def test_a_fifo_in_place_of_a_file_is_refused(path):
    os.mkfifo(path)
    with pytest.raises(JobError, match="is damaged"):
        read_share(path)
