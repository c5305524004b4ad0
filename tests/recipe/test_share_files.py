"""The files of shares: what is read back, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import pickle

import numpy as np
import pytest
import safetensors.numpy

from prune_gui.pruning.predicates.unit_cuts import PrunedUnits
from prune_gui.pruning.selection.histogram_cache import DigitHistogram
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.pruning.selection.row_column_scores import BlockSums
from prune_gui.pruning.selection.rows import RowCuts
from prune_gui.recipe.share_files import MAGIC, JobError, Share, read_share, write_share

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
