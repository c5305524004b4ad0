"""Every key is in one stretch; those that are there without a copy come in longer ones."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.pruning import parallel
from prune_gui.pruning.selection.chunk_spans import LONGER, PIECES, chunk_spans
from prune_gui.pruning.selection.keys import RandomKeys, ScoreKeys
from prune_gui.pruning.selection.scores import ScaledColumns, TensorScores


def sources(size):
    weights = TensorScores.of(torch.zeros(1, size))
    half = TensorScores.of(torch.zeros(size, dtype=torch.float16))
    return {
        "as they are": ScoreKeys.of(weights),
        "of a wider type": ScoreKeys(half, torch.float32),
        "scaled": ScoreKeys.of(ScaledColumns(weights, TensorScores.of(torch.ones(size)))),
        "at random": RandomKeys(0, "w", size),
    }


@given(st.integers(0, 500), st.sampled_from([1, 7, 64]), st.sampled_from(list(sources(1))))
def test_every_key_is_in_one_stretch_in_order(size, chunk, kind):
    keys = sources(size)[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        found = chunk_spans(keys)
    assert [place for start, stop in found for place in range(start, stop)] == list(range(size))


def test_keys_that_are_copied_come_in_shorter_stretches(monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 8)
    longest = {kind: chunk_spans(keys)[0][1] for kind, keys in sources(1000).items()}
    assert longest == dict.fromkeys(longest, 8) | {"as they are": 8 * LONGER}


@pytest.mark.parametrize(("size", "pieces"), [(24, 3), (64, 8), (128, PIECES), (512, 16)])
def test_there_are_enough_pieces_for_several_threads(monkeypatch, size, pieces):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 8)
    assert len(chunk_spans(sources(size)["as they are"])) == pieces
