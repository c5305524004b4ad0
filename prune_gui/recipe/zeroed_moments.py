"""Setting the optimizer's moments of pruned elements to zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from prune_gui.checkpoint import TensorWriter
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.moments import moments
from prune_gui.errors import CheckpointError
from prune_gui.language import tr
from prune_gui.pruning.parallel import chunks
from prune_gui.recipe.parts import masked
from prune_gui.recipe.resolution import Resolution


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
