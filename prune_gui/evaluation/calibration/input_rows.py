"""The input of a layer as the rows of a matrix, of which each meets one row of the weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from prune_gui.evaluation.calibration.layer_inputs import CONVOLUTIONS, is_transposed_linear
from prune_gui.pruning.selection.scores import wide_dtype

MAX_ELEMENTS: Final = 1 << 24
"""The limit for the elements of one chunk; 64 MiB in float32. A chunk has one row or sample."""


def has_rows(module: nn.Module) -> bool:
    """Return whether `second_moments` knows the rows of a layer."""
    return isinstance(module, (nn.Linear, *CONVOLUTIONS)) or is_transposed_linear(module)


def second_moments(module: nn.Module, inputs: Tensor) -> Tensor:
    """Return X^T X, where X has a row for each vector that the weight of a layer multiplies.

    The columns of X are those of ``weight.reshape(rows, -1)``; of the `Conv1D` of transformers they
    are the rows of the weight. A convolution has a row for each position of its output.

    Returns:
        (columns, columns), or (groups, columns, columns) of a convolution with groups; float32, or
        float64 for such inputs.
    """
    chunks = _patches(module, inputs) if isinstance(module, CONVOLUTIONS) else _rows(inputs)
    total: Tensor | None = None
    for rows in chunks:
        product = rows.mT @ rows
        total = product if total is None else total.add_(product)
    assert total is not None
    return total.squeeze(0) if total.shape[0] == 1 else total


def _rows(inputs: Tensor) -> Iterator[Tensor]:
    """Yield (1, rows, columns)."""
    rows = inputs.reshape(-1, inputs.shape[-1])
    for chunk in torch.split(rows, max(1, MAX_ELEMENTS // rows.shape[1])):
        yield chunk.to(wide_dtype(inputs.dtype))[None]


def _patches(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, inputs: Tensor) -> Iterator[Tensor]:
    """Yield (groups, samples * positions, columns)."""
    dims = len(module.kernel_size)
    samples = inputs if inputs.dim() == dims + 2 else inputs[None]
    columns = module.weight[0].numel() * module.groups
    positions = samples[0, 0].numel()
    for chunk in torch.split(samples, max(1, MAX_ELEMENTS // (columns * positions))):
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        padding = module._reversed_padding_repeated_twice
        patches = functional.pad(chunk.to(wide_dtype(inputs.dtype)), padding, mode)
        geometry = zip(module.kernel_size, module.stride, module.dilation, strict=True)
        for dim, (kernel, stride, dilation) in enumerate(geometry, 2):
            window = dilation * (kernel - 1) + 1
            patches = patches.unfold(dim, window, stride)[..., ::dilation]
        # (samples, channels, *positions, *kernel)
        patches = torch.unflatten(patches, 1, (module.groups, -1)).movedim(1, 0)
        patches = patches.movedim(2, 2 + dims)  # (groups, samples, *positions, channels, *kernel)
        yield patches.reshape(module.groups, -1, columns // module.groups)
