"""Compressing chunks on several threads: one valid stream, the same for any number of threads."""

from __future__ import annotations

import threading
import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prune_gui.checkpoint.torch import archive
from prune_gui.checkpoint.torch.archive import LAST_BLOCK, deflated, deflated_chunks
from prune_gui.checkpoint.torch.zip_layout import MAX_GROWTH


def octets_of(tensor: torch.Tensor) -> memoryview:
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def pruned(amount: float, count: int = 100_000) -> torch.Tensor:
    torch.manual_seed(0)
    weights = torch.randn(count)
    return torch.where(weights.abs() < weights.abs().quantile(amount), 0, weights)


def compressed(chunks, threads: int) -> bytes:
    return b"".join(blocks for _, _, blocks in deflated_chunks(chunks, threads)) + LAST_BLOCK


@given(st.lists(st.binary(max_size=300) | st.integers(0, 300).map(bytes), max_size=8))
def test_compressed_chunks_are_one_deflate_stream_for_any_number_of_threads(chunks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "DEFLATE_CHUNK_BYTES", 64)
        views = [(number, memoryview(chunk)) for number, chunk in enumerate(chunks)]
        stream = compressed(views, 1)
        assert compressed(views, 3) == stream
    reader = zlib.decompressobj(-zlib.MAX_WBITS)
    assert reader.decompress(stream) == b"".join(chunks)
    assert reader.eof
    assert reader.unused_data == b""


@pytest.mark.parametrize(("amount", "share"), [(0.5, 0.54), (0.7, 0.35), (0.9, 0.14)])
def test_pruned_weights_become_smaller_by_about_their_zeros(amount, share):
    octets = octets_of(pruned(amount))
    assert len(deflated(octets)) / len(octets) == pytest.approx(share, abs=0.02)


def test_a_mask_is_compressed_further_than_a_search_for_runs_could():
    octets = octets_of((pruned(0.5) != 0).float())
    assert len(deflated(octets)) / len(octets) < 0.1  # at least one bit per byte without matches


def test_no_chunk_shrinks_by_more_than_readers_accept():
    zeros = bytes(1 << 20)
    blocks = deflated(memoryview(zeros))
    assert MAX_GROWTH * len(blocks) >= len(zeros)
    assert len(blocks) < len(zeros) // 90
    assert zlib.decompress(blocks + LAST_BLOCK, -zlib.MAX_WBITS) == zeros


def test_only_a_few_chunks_are_compressed_in_advance_and_no_thread_remains():
    taken = []

    def chunks():
        for number in range(1000):
            taken.append(number)
            yield None, memoryview(b"abc")

    before = threading.active_count()
    prepared = deflated_chunks(chunks(), 2)
    next(prepared)
    assert len(taken) <= 5
    prepared.close()
    assert threading.active_count() == before
