"""The tensors of each form of a pruned checkpoint, and moments, computed chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from prune_gui.checkpoint import TensorInfo, TensorWriter
from prune_gui.checkpoint.parameters import MASK_SUFFIX, ORIGINAL_SUFFIX
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.state_dict_search import moments
from prune_gui.checkpoint.write.content import Spans
from prune_gui.errors import CheckpointError
from prune_gui.parallel import chunks
from prune_gui.pruning.arrays import Bits
from prune_gui.pruning.kernels import key_loops as key_kernels
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.recipe import stack
from prune_gui.recipe.output import Form
from prune_gui.recipe.resolution import Resolution
from prune_gui.recipe.stack import AppliedStep


def parts(resolution: Resolution, form: Form) -> Iterator[TensorWriter]:
    """Yield the tensors of a form, without special ones, which the torch writer copies."""
    for info in resolution.checkpoint.tensors.values():
        steps = resolution.layers.get(info.name)
        if info.special is not None:
            continue
        if form == "finalized":
            yield finalized(resolution, info)
        elif form == "reparametrized":
            name = info.name if steps is None else info.name + ORIGINAL_SUFFIX
            whole = partial(_original, _reader(resolution, info.name))
            yield TensorWriter.of(name, info.dtype, info.shape, whole)
            if steps is not None:
                mask = partial(_mask, steps, info.dtype)
                yield TensorWriter.of(info.name + MASK_SUFFIX, info.dtype, info.shape, mask)
        elif steps is not None:
            yield TensorWriter.of(info.name, "bool", info.shape, partial(_mask, steps, "bool"))


def finalized(
    resolution: Resolution, info: TensorInfo, keys: tuple[tuple[str, str], ...] = ()
) -> TensorWriter:
    """Return a tensor of the finalized form; `keys` are those of `TensorWriter`."""
    read, steps = _reader(resolution, info.name), resolution.layers.get(info.name)
    values = partial(_original, read) if steps is None else partial(_pruned, read, steps)
    return TensorWriter.of(keys[0][0] if keys else info.name, info.dtype, info.shape, values, keys)


def _reader(resolution: Resolution, name: str) -> Callable[[], torch.Tensor]:
    """Return `Resolution.values` of a parameter as a function.

    It refers to the resolution only if values are corrected, so that it is small when pickled.
    """
    if resolution.is_corrected(name):
        return partial(resolution.values, name)
    return partial(resolution.checkpoint.view, name)


def _original(read: Callable[[], torch.Tensor], spans: Spans) -> Iterator[torch.Tensor]:
    flat = read().reshape(-1)
    for start, stop in spans:
        yield flat[start:stop]


def _pruned(
    read: Callable[[], torch.Tensor], applied_steps: Sequence[stack.AppliedStep], spans: Spans
) -> Iterator[torch.Tensor]:
    return masked(read().reshape(-1), applied_steps, spans)


def masked(
    flat: torch.Tensor, applied_steps: Sequence[stack.AppliedStep], spans: Spans
) -> Iterator[torch.Tensor]:
    """Yield values with pruned elements set to +0: all bits zero in every float type."""
    for start, stop in spans:
        values = torch.empty_like(flat[start:stop])
        pruned_by = stack.pruned_by(applied_steps, start, stop)
        key_kernels.copy_kept(raw_bits(flat[start:stop]), pruned_by, raw_bits(values))
        yield values


def _mask(
    applied_steps: Sequence[stack.AppliedStep], dtype: str, spans: Spans
) -> Iterator[torch.Tensor]:
    for start, stop in spans:
        yield torch.from_numpy(stack.kept(applied_steps, start, stop)).to(getattr(torch, dtype))


def with_zeroed_moments(
    tensors: Sequence[TensorWriter], resolution: Resolution
) -> list[TensorWriter]:
    """Return the writers of the finalized form with those of the moments of pruned parameters."""
    checkpoint = resolution.checkpoint
    if not isinstance(checkpoint, TorchCheckpoint) or not (found := moments(checkpoint)):
        raise CheckpointError(
            "{file} has no optimizer state with moments.", file=checkpoint.path.name
        )
    return [
        replace(
            tensor,
            moments=tuple(
                (moment, _writer(resolution, checkpoint, tensor.name, moment.detach()))
                for _, moment in found.get(tensor.name, ())
                if tensor.name in resolution.layers
            ),
        )
        for tensor in tensors
    ]


def _writer(
    resolution: Resolution, checkpoint: TorchCheckpoint, name: str, moment: torch.Tensor
) -> TensorWriter:
    steps = resolution.layers[name]
    return TensorWriter(
        name,
        str(moment.dtype).removeprefix("torch."),
        tuple(moment.shape),
        lambda: masked(checkpoint.values_of(moment).reshape(-1), steps, chunks(moment.numel())),
    )


Kept = Mapping[int, NDArray[np.int64]]
"""The kept channels, ascending, of each dimension that loses some."""

MAX_ROW_ELEMENTS: Final = 1 << 18
"""The limit of what is gathered as a unit; rows that are longer are divided."""
BATCH_ELEMENTS: Final = 1 << 20  # elements that are read or masked at once
MAX_GAP_ELEMENTS: Final = 1 << 14
"""Removed elements whose masks are computed with those around them, because that is faster."""


def sliced_shape(shape: tuple[int, ...], kept: Kept) -> tuple[int, ...]:
    """Return the shape of the kept channels."""
    return tuple(len(kept[dim]) if dim in kept else n for dim, n in enumerate(shape))


def sliced(
    flat: torch.Tensor,
    shape: tuple[int, ...],
    kept: Kept,
    steps: Sequence[AppliedStep],
    spans: Spans,
) -> Iterator[torch.Tensor]:
    """Yield spans of the kept channels of a tensor, in flat indices, a few MiB at once."""
    reader = _RowReader(flat, shape, kept, steps)
    for start, stop in spans:
        values = torch.empty(stop - start, dtype=flat.dtype)
        reader.fill(start, stop, raw_bits(values))
        yield values


class _RowReader:
    """Gathers rows: what belongs to one index of the leading dimensions."""

    def __init__(
        self, flat: torch.Tensor, shape: tuple[int, ...], kept: Kept, steps: Sequence[AppliedStep]
    ) -> None:
        self._flat = flat
        self._steps = steps
        leading = next(
            dims for dims in range(1, len(shape) + 1) if math.prod(shape[dims:]) <= MAX_ROW_ELEMENTS
        )
        new_shape = sliced_shape(shape, kept)
        self._leading, self._new_leading = shape[:leading], new_shape[:leading]
        self._row_shape, self._row = shape[leading:], math.prod(shape[leading:])
        self._new_row = math.prod(new_shape[leading:])
        self._bits = raw_bits(flat).reshape(math.prod(self._leading), self._row)
        self._kept_leading = {dim: index for dim, index in kept.items() if dim < leading}
        self._kept_row = {dim - leading: index for dim, index in kept.items() if dim >= leading}

    def fill(self, start: int, stop: int, out: Bits) -> None:
        for first, last in self._batches(start, stop):
            begin, end = first * self._new_row, last * self._new_row
            if start <= begin and end <= stop:
                self._read(first, last, out[begin - start : end - start])
                continue
            row = np.empty(end - begin, out.dtype)
            self._read(first, last, row)
            lower, upper = max(start, begin), min(stop, end)
            out[lower - start : upper - start] = row[lower - begin : upper - begin]

    def _batches(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield spans of rows that cover [start, stop); a row that is partly in it is a span."""
        first, last = start // self._new_row, -(-stop // self._new_row)
        full, full_end = -(-start // self._new_row), stop // self._new_row
        if full > full_end:  # within one row
            yield first, last
            return
        if first < full:
            yield first, full
        step = max(1, BATCH_ELEMENTS // self._row)
        for batch in range(full, full_end, step):
            yield batch, min(batch + step, full_end)
        if full_end < last:
            yield full_end, last

    def _read(self, first: int, last: int, out: Bits) -> None:
        index = list(np.unravel_index(np.arange(first, last), self._new_leading))
        for dim, channels in self._kept_leading.items():
            index[dim] = channels[index[dim]]
        old = np.ravel_multi_index(tuple(index), self._leading)
        rows = out.reshape(last - first, self._new_row)
        if not self._steps:
            self._gather(self._bits, old, rows)
            return
        done = 0
        for run in self._runs(old):
            start = int(run[0]) * self._row
            (values,) = masked(self._flat, self._steps, [(start, (int(run[-1]) + 1) * self._row)])
            block = raw_bits(values).reshape(-1, self._row)
            self._gather(block, run - run[0], rows[done : done + len(run)])
            done += len(run)

    def _gather(self, block: Bits, rows: NDArray[np.intp], out: Bits) -> None:
        if not self._kept_row:
            np.take(block, rows, axis=0, out=out, mode="clip")  # faster than with checks
            return
        first, stop = rows[0], rows[-1] + 1
        values = block[first:stop] if stop - first == len(rows) else block[rows]
        values = values.reshape(len(rows), *self._row_shape)
        *others, (last_dim, last_channels) = self._kept_row.items()
        for dim, channels in others:
            values = np.take(values, channels, axis=dim + 1, mode="clip")
        shape = sliced_shape(values.shape, {last_dim + 1: last_channels})
        np.take(values, last_channels, axis=last_dim + 1, out=out.reshape(shape), mode="clip")

    def _runs(self, rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        gaps = (np.diff(rows) - 1) * self._row > MAX_GAP_ELEMENTS
        blocks = rows * self._row // BATCH_ELEMENTS
        return np.split(rows, np.flatnonzero(gaps | (np.diff(blocks) > 0)) + 1)
