"""The tensors of each form of a pruned checkpoint, and moments, computed chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from prune_gui.checkpoint import TensorInfo, TensorWriter
from prune_gui.checkpoint.parameters import MASK_SUFFIX, ORIGINAL_SUFFIX
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES, size_in_bytes
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.moments import moments
from prune_gui.errors import CheckpointError
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.recipe import stack
from prune_gui.recipe.output import Form
from prune_gui.recipe.resolution import Resolution

Spans = Iterable[tuple[int, int]]
"""Spans (start, stop) of a flat tensor, in elements; in bytes if the dtype is packed."""
Values = Callable[[Spans], Iterator[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class FormTensor:
    """One tensor to write, any span of which can be computed by itself.

    Attributes:
        entry: writes the whole tensor.
        units: number of elements; of bytes if the dtype is packed.
        values: yields the values of each of some spans as a flat tensor.
    """

    entry: TensorWriter
    units: int
    values: Values

    @classmethod
    def of(
        cls,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        values: Values,
        keys: tuple[tuple[str, str], ...] = (),
    ) -> FormTensor:
        """Return a tensor whose whole is written in chunks; see `TensorWriter`."""
        packed = dtype in PACKED_DTYPES
        units = size_in_bytes(shape, dtype) if packed else math.prod(shape)
        entry = TensorWriter(name, dtype, shape, partial(_all_chunks, values, units), keys=keys)
        return cls(entry, units, values)


def _all_chunks(values: Values, units: int) -> Iterator[torch.Tensor]:
    return values(chunks(units))


def parts(resolution: Resolution, form: Form) -> Iterator[FormTensor]:
    """Yield the tensors of a form, without special ones, which the torch writer copies.

    Those of the compact form are in `prune_gui.recipe.compaction`.
    """
    for info in resolution.checkpoint.tensors.values():
        steps = resolution.layers.get(info.name)
        if info.special is not None:
            continue
        if form == "finalized":
            yield finalized(resolution, info)
        elif form == "reparametrized":
            name = info.name if steps is None else info.name + ORIGINAL_SUFFIX
            whole = partial(_original, _reader(resolution, info.name))
            yield FormTensor.of(name, info.dtype, info.shape, whole)
            if steps is not None:
                mask = partial(_mask, steps, info.dtype)
                yield FormTensor.of(info.name + MASK_SUFFIX, info.dtype, info.shape, mask)
        elif steps is not None:
            yield FormTensor.of(info.name, "bool", info.shape, partial(_mask, steps, "bool"))


def finalized(
    resolution: Resolution, info: TensorInfo, keys: tuple[tuple[str, str], ...] = ()
) -> FormTensor:
    """Return a tensor of the finalized form; `keys` are those of `TensorWriter`."""
    read, steps = _reader(resolution, info.name), resolution.layers.get(info.name)
    values = partial(_original, read) if steps is None else partial(_pruned, read, steps)
    return FormTensor.of(keys[0][0] if keys else info.name, info.dtype, info.shape, values, keys)


def _reader(resolution: Resolution, name: str) -> Callable[[], torch.Tensor]:
    """Return `Resolution.values` of a parameter as a function.

    It refers to the resolution only if the values are corrected, so that it is small when pickled.
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
        kept = stack.kept(applied_steps, start, stop)
        np.multiply(raw_bits(flat[start:stop]), kept, out=raw_bits(values))
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
