"""The tensors of each form of a pruned checkpoint, computed chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from prune_gui.checkpoint import TensorInfo, TensorWriter
from prune_gui.checkpoint.parameters import MASK_SUFFIX, ORIGINAL_SUFFIX
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.moments import moments
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.pruning.parallel import chunks
from prune_gui.pruning.selection.keys import raw_bits
from prune_gui.recipe import stack
from prune_gui.recipe.output import Form
from prune_gui.recipe.resolution import Resolution

Spans = Iterable[tuple[int, int]]
"""Spans (start, stop) of a flat tensor, in elements; in bytes if the dtype is packed."""


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
    values: Callable[[Spans], Iterator[torch.Tensor]]


def parts(resolution: Resolution, form: Form) -> Iterator[FormTensor]:
    """Yield the tensors of a form, without special ones, which the torch writer copies.

    Those of the compact form are in `prune_gui.recipe.compaction`.
    """
    for info in resolution.checkpoint.tensors.values():
        if info.special is None:
            yield from _FORMS[form](resolution, info)


def finalized(resolution: Resolution, info: TensorInfo) -> FormTensor:
    """Return a tensor of the finalized form."""
    read = _reader(resolution, info.name)
    if info.name in resolution.layers:
        values = partial(_pruned, read, resolution.layers[info.name])
    else:
        values = partial(_original, read)
    return _form_tensor(info, info.name, info.dtype, values)


def _finalized(resolution: Resolution, info: TensorInfo) -> Iterator[FormTensor]:
    yield finalized(resolution, info)


def _reparametrized(resolution: Resolution, info: TensorInfo) -> Iterator[FormTensor]:
    pruned = info.name in resolution.layers
    name = info.name + ORIGINAL_SUFFIX if pruned else info.name
    yield _form_tensor(info, name, info.dtype, partial(_original, _reader(resolution, info.name)))
    if pruned:
        mask = partial(_mask, resolution.layers[info.name], info.dtype)
        yield _form_tensor(info, info.name + MASK_SUFFIX, info.dtype, mask)


def _masks(resolution: Resolution, info: TensorInfo) -> Iterator[FormTensor]:
    if info.name in resolution.layers:
        yield _form_tensor(
            info, info.name, "bool", partial(_mask, resolution.layers[info.name], "bool")
        )


_FORMS: dict[Form, Callable[[Resolution, TensorInfo], Iterator[FormTensor]]] = {
    "finalized": _finalized,
    "reparametrized": _reparametrized,
    "masks": _masks,
}


def _form_tensor(
    info: TensorInfo, name: str, dtype: str, values: Callable[[Spans], Iterator[torch.Tensor]]
) -> FormTensor:
    units = info.nbytes if dtype in PACKED_DTYPES else info.numel
    entry = TensorWriter(name, dtype, info.shape, partial(_all_chunks, values, units))
    return FormTensor(entry, units, values)


def _all_chunks(
    values: Callable[[Spans], Iterator[torch.Tensor]], units: int
) -> Iterator[torch.Tensor]:
    return values(chunks(units))


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
            tr("{file} has no optimizer state with moments.", file=checkpoint.path.name)
        )
    return [
        replace(
            tensor,
            moments=tuple(
                (moment, _writer(resolution, checkpoint, tensor.name, moment.detach()))
                for moment in found.get(tensor.name, ())
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
