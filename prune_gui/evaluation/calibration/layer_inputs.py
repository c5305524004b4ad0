"""How layers read their input: which elements of it meet which elements of the weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from prune_gui.pruning.selection.scores import wide_dtype

CONVOLUTIONS: Final = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED: Final = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclass(frozen=True, slots=True)
class InputChannels:
    """Where the input channels of a layer are.

    The input of an embedding counts as vectors with a single 1, so that its channels are the
    tokens of the vocabulary.

    Attributes:
        count: number of input channels.
        input_dim: the dimension of the input that has the channels, negative; None for indices.
        weight_dim: the dimension of the weight that has the channels, or those of one group.
        groups: number of groups of a convolution.
    """

    count: int
    input_dim: int | None
    weight_dim: int
    groups: int = 1

    @property
    def are_columns(self) -> bool:
        """Whether each element of dimension 1 of the weight meets one channel."""
        return self.weight_dim == 1 and self.groups == 1

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
    if isinstance(module, CONVOLUTIONS):
        dim = -1 - len(module.kernel_size)
        return InputChannels(module.in_channels, dim, 1, module.groups)
    if isinstance(module, TRANSPOSED):
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
