"""Every key is in one span; spans of keys that are read without a copy are longer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.pruning import parallel
from prune_gui.pruning.selection.keys import (
    MAX_CHUNKS_PER_SPAN,
    MIN_SPANS,
    RandomKeys,
    ScoreKeys,
    chunk_spans,
)
from prune_gui.pruning.selection.scores import ScaledColumns, TensorScores


def keys_by_kind(size):
    weights = TensorScores.of(torch.zeros(1, size))
    half_precision = TensorScores.of(torch.zeros(size, dtype=torch.float16))
    return {
        "without a copy": ScoreKeys.of(weights),
        "of a wider type": ScoreKeys(half_precision, torch.float32),
        "scaled": ScoreKeys.of(ScaledColumns(weights, TensorScores.of(torch.ones(size)))),
        "at random": RandomKeys(0, "w", size),
    }


@given(st.integers(0, 500), st.sampled_from([1, 7, 64]), st.sampled_from(list(keys_by_kind(1))))
def test_spans_cover_every_key_once_in_order(size, chunk, kind):
    keys = keys_by_kind(size)[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_ELEMENTS", chunk)
        spans = chunk_spans(keys)
    assert [index for start, stop in spans for index in range(start, stop)] == list(range(size))


def test_spans_of_keys_that_are_copied_are_shorter(monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 8)
    first_sizes = {kind: chunk_spans(keys)[0][1] for kind, keys in keys_by_kind(1000).items()}
    assert first_sizes == dict.fromkeys(first_sizes, 8) | {
        "without a copy": 8 * MAX_CHUNKS_PER_SPAN
    }


@pytest.mark.parametrize(("size", "spans"), [(24, 3), (64, 8), (128, MIN_SPANS), (512, 16)])
def test_there_are_enough_spans_for_several_threads(monkeypatch, size, spans):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 8)
    assert len(chunk_spans(keys_by_kind(size)["without a copy"])) == spans
