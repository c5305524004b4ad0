"""How layers read their input: which elements of it meet which elements of the weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from prune_gui.checkpoint.parameters import (
    COMPILED_PREFIX,
    DATA_PARALLEL_PREFIX,
    MASK_SUFFIX,
    ORIGINAL_SUFFIX,
)
from prune_gui.pruning.devices import in_parts
from prune_gui.pruning.selection.scores import wide_dtype

CONVOLUTIONS: Final = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, slots=True)
class InputChannels:
    """Where the input channels of a layer are; those of an embedding are the tokens."""

    count: int
    input_dim: int | None  # of the input that has the channels, negative; None for indices
    weight_dim: int  # of the weight that has the channels, or those of one group
    groups: int = 1

    def squares(self, inputs: Tensor) -> Tensor:
        """Return the sum of squares of each channel; float64 of shape (count,), see `_widest`."""
        if self.input_dim is None:
            counts = torch.bincount(inputs.flatten(), minlength=self.count)
            return counts.to(_widest(inputs.device))
        inputs = inputs.unsqueeze(0)  # so that there is a dimension to sum over
        norms: Tensor = torch.linalg.vector_norm(
            inputs, dim=self._other_dims(inputs), dtype=wide_dtype(inputs.dtype)
        )
        return norms.to(_widest(inputs.device)).square()

    def sums(self, inputs: Tensor) -> Tensor:
        """Return the sum of each channel, of no embedding; float64 (count,), see `_widest`."""
        inputs = inputs.unsqueeze(0)
        sums = inputs.sum(self._other_dims(inputs), dtype=wide_dtype(inputs.dtype))
        return sums.to(_widest(inputs.device))

    def vectors(self, inputs: Tensor) -> int:
        """Return the number of vectors of channels: of tokens, or of positions in pictures."""
        return inputs.numel() if self.input_dim is None else inputs.numel() // self.count

    def beside_weight(self, values: Tensor, shape: torch.Size) -> Tensor:
        """Return one value per channel in a shape that broadcasts to the shape of the weight."""
        ones = [1] * len(shape)
        if self.groups == 1:
            ones[self.weight_dim] = self.count
            return values.view(ones)
        per_row = values.view(self.groups, -1).repeat_interleave(shape[0] // self.groups, 0)
        return per_row.view(shape[:2] + (1,) * (len(shape) - 2))

    def _other_dims(self, inputs: Tensor) -> list[int]:
        assert self.input_dim is not None
        channel = inputs.dim() + self.input_dim
        return [dim for dim in range(inputs.dim()) if dim != channel]


def input_channels(module: nn.Module) -> InputChannels | None:
    """Return where the input channels of a layer are; None if it is not of a known type."""
    match module:
        case nn.Linear():
            return InputChannels(module.in_features, -1, 1)
        case nn.Embedding():
            return InputChannels(module.num_embeddings, None, 0)
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            dim = -1 - len(module.kernel_size)
            return InputChannels(module.in_channels, dim, 1, module.groups)
        case nn.ConvTranspose1d() | nn.ConvTranspose2d() | nn.ConvTranspose3d():
            return InputChannels(module.in_channels, -1 - len(module.kernel_size), 0)
    if is_transposed_linear(module):
        return InputChannels(module.get_parameter("weight").shape[0], -1, 0)
    return None


def is_transposed_linear(module: nn.Module) -> bool:
    """Return whether a module is the `Conv1D` of transformers: x @ weight + bias, as in GPT-2."""
    return any(
        base.__name__ == "Conv1D" and base.__module__.startswith("transformers.")
        for base in type(module).__mro__
    )


def _widest(device: torch.device) -> torch.dtype:
    """Return the dtype for sums over all inputs: float64; float32 where the device lacks it."""
    return torch.float32 if device.type == "mps" else torch.float64


MAX_ELEMENTS: Final = 1 << 24
"""The limit for the elements of one chunk; 64 MiB in float32. A chunk has one row or sample."""


def has_rows(module: nn.Module) -> bool:
    """Return whether `second_moments` knows the rows of a layer."""
    return isinstance(module, (nn.Linear, *CONVOLUTIONS)) or is_transposed_linear(module)


def second_moments(
    module: nn.Module,
    inputs: Tensor,
    others: Tensor | None = None,
    before: Tensor | None = None,
) -> Tensor:
    """Return X^T X, where X has a row for each vector that the weight of a layer multiplies.

    With `others`, of the shape of the inputs, it is Y^T X, where Y has their rows. It is added to
    `before`, in place, if that is given.

    The columns of X are those of ``weight.reshape(rows, -1)``; of the `Conv1D` of transformers they
    are the rows of the weight. A convolution has a row for each position of its output. The result
    is (columns, columns), or (groups, columns, columns) of a convolution with groups; float32, or
    float64 for such inputs.
    """
    both = inputs, inputs if others is None else others
    if isinstance(module, CONVOLUTIONS):
        dims = len(module.kernel_size) + 2
        samples, left = (one if one.dim() == dims else one[None] for one in both)
        groups, columns = module.groups, module.weight[0].numel()
        sample_elements = columns * groups * samples[0, 0].numel()
        rows_of = partial(_patches, module)
    else:
        samples, left = (one.reshape(-1, one.shape[-1]) for one in both)
        groups, columns = 1, samples.shape[1]
        sample_elements, rows_of = columns, partial(torch.unsqueeze, dim=0)
    shape = groups, columns, columns
    if before is None:
        before = torch.zeros(shape, dtype=wide_dtype(inputs.dtype), device=inputs.device)
    total = before.view(shape)

    def add(start: int, stop: int) -> None:
        rows = rows_of(samples[start:stop].to(total.dtype))
        others_rows = rows if others is None else rows_of(left[start:stop].to(total.dtype))
        total.baddbmm_(others_rows.mT, rows)

    in_parts(len(samples), MAX_ELEMENTS // sample_elements, add)
    return total.squeeze(0) if groups == 1 else total


def _patches(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, samples: Tensor) -> Tensor:
    """Return (groups, samples * positions, columns)."""
    dims = len(module.kernel_size)
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    patches = functional.pad(samples, module._reversed_padding_repeated_twice, mode)
    geometry = zip(module.kernel_size, module.stride, module.dilation, strict=True)
    for dim, (kernel, stride, dilation) in enumerate(geometry, 2):
        window = dilation * (kernel - 1) + 1
        patches = patches.unfold(dim, window, stride)[..., ::dilation]
    # (samples, channels, *positions, *kernel)
    patches = torch.unflatten(patches, 1, (module.groups, -1)).movedim(1, 0)
    patches = patches.movedim(2, 2 + dims)  # (groups, samples, *positions, channels, *kernel)
    return patches.reshape(module.groups, -1, module.weight[0].numel())


RUNNING_MEAN, RUNNING_VAR = "running_mean", "running_var"
DATA_PARALLEL: Final = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def named_modules(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield all modules, under each of their names, with the prefix of their parameters.

    A wrapper of `torch.compile` or of data parallelism adds nothing to that of the module inside.
    """
    yield prefix, module
    for name, child in module._modules.items():
        if child is not None:
            own = f"{name}."
            yield from named_modules(child, prefix + ("" if own == _wrapper(module) else own))


def parameter_names(model: nn.Module) -> dict[Tensor, list[str]]:
    """Return the names of each parameter of a floating point dtype; tied ones have several.

    The parameter `X_orig` beside a buffer `X_mask` (see `torch.nn.utils.prune`) has the name `X`.
    """
    names: dict[Tensor, list[str]] = {}
    for prefix, module in named_modules(model):
        for key, parameter in module._parameters.items():
            if parameter is not None and parameter.is_floating_point():
                name = key.removesuffix(ORIGINAL_SUFFIX)
                is_pair = name + MASK_SUFFIX in module._buffers
                names.setdefault(parameter, []).append(prefix + (name if is_pair else key))
    return names


def batch_norm_names(model: nn.Module) -> dict[Tensor, list[str]]:
    """Return the names of the running means and variances of batch norms."""
    names: dict[Tensor, list[str]] = {}
    for prefix, module in named_modules(model):
        if isinstance(module, _BatchNorm):
            for key in (RUNNING_MEAN, RUNNING_VAR):
                buffer = module._buffers.get(key)
                if buffer is not None:
                    names.setdefault(buffer, []).append(prefix + key)
    return names


def weight_of(module: nn.Module) -> nn.Parameter | None:
    """Return the parameter `weight` of a module, or that from which a mask makes it."""
    return module._parameters.get("weight", module._parameters.get("weight" + ORIGINAL_SUFFIX))


def _wrapper(module: nn.Module) -> str:
    """Return the prefix that a wrapper adds to the names of its module; "" if it is none."""
    if isinstance(module, DATA_PARALLEL):
        return DATA_PARALLEL_PREFIX
    # the class of compiled modules is slow to import, and its name is private
    is_compiled = any(base.__name__ == "OptimizedModule" for base in type(module).__mro__)
    return COMPILED_PREFIX if is_compiled else ""
