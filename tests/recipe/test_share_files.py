"""The files of shares: what is read back, and what is refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from prune_gui.pruning.predicates.channels import PrunedUnits
from prune_gui.pruning.selection.histogram_cache import DigitHistogram
from prune_gui.pruning.selection.radix_select import Cut
from prune_gui.pruning.selection.row_column_scores import _BlockSums
from prune_gui.pruning.selection.rows import RowCuts
from prune_gui.recipe.share_files import JobError, Share, read_share, write_share


class Payload:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_all_results_are_read_back(tmp_path):
    counts = np.arange(6).reshape(2, 3)
    results = [
        *(DigitHistogram.of(counts[0]), Cut(3, -1, 2), None, "digits", 5, (1, 2.5)),
        RowCuts(counts[0].astype(np.uint32), counts[1]),
        PrunedUnits(counts[0] > 1, counts[1] / 2, counts[0]),
        _BlockSums(counts[0] / 1, counts[1], counts[1] / 1, 4),
        (slice(0, 3), counts[:, ::2], counts.sum()),
    ]
    write_share(tmp_path / "share", Share(7, results, 9))
    read = read_share(tmp_path / "share")
    assert (read.tasks, read.nbytes) == (7, 9)
    assert repr(read.results) == repr(results)


def test_a_file_with_code_is_refused_and_does_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("share").write_bytes(pickle.dumps((1, [Payload()], 0)))
    with pytest.raises(JobError, match="is damaged"):
        read_share(Path("share"))
    assert not Path("ran").exists()


@pytest.mark.parametrize("content", [(1, 2), (1, {}, 0), ("1", [], 0), None, [1, [], 0.5]])
def test_other_values_are_refused(tmp_path, content):
    (tmp_path / "share").write_bytes(pickle.dumps(content))
    with pytest.raises(JobError, match="is damaged"):
        read_share(tmp_path / "share")


def test_every_cut_of_a_file_is_refused(tmp_path):
    write_share(tmp_path / "share", Share(1, [Cut(1, 2, 3), np.arange(3)], 4))
    whole = (tmp_path / "share").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "share").write_bytes(whole[:length])
        with pytest.raises(JobError, match="is damaged"):
            read_share(tmp_path / "share")
