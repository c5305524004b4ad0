"""A mask in one bit per element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from prune_gui.pruning.kernels.mask_loops import clear
from prune_gui.pruning.selection.keys import raw_bits

_BITS: Final = torch.tensor([1 << i for i in range(8)], dtype=torch.uint8)


@dataclass(frozen=True, slots=True)
class PackedMask:
    """Which elements of a tensor are pruned, on the device of the tensor.

    Attributes:
        shape: of the tensor.
        bits: uint8, flat: bit i % 8 of byte i // 8 is 1 if the element i is pruned; the last bits
            are 0.
    """

    shape: torch.Size
    bits: Tensor

    @classmethod
    def of(cls, pruned: Tensor) -> PackedMask:
        """Return the mask of a boolean tensor, True where pruned."""
        flat = pruned.flatten()
        if flat.device.type == "cpu":
            bits = torch.from_numpy(np.packbits(flat.numpy(), bitorder="little"))
        else:
            octets = torch.nn.functional.pad(flat.to(torch.uint8), (0, -flat.numel() % 8))
            weights = _BITS.to(flat.device)
            bits = (octets.view(-1, 8) * weights).sum(1, dtype=torch.uint8)
        return cls(pruned.shape, bits)

    def pruned(self) -> Tensor:
        """Return a boolean tensor, True where pruned."""
        if self.bits.device.type == "cpu":
            flat = np.unpackbits(self.bits.numpy(), count=self.shape.numel(), bitorder="little")
            return torch.from_numpy(flat).view(torch.bool).view(self.shape)
        octets = (self.bits[:, None] & _BITS.to(self.bits.device)).bool()
        return octets.view(-1)[: self.shape.numel()].view(self.shape)

    def clear(self, *tensors: Tensor) -> None:
        """Set the pruned elements of tensors of this shape to 0, in place."""
        others = []
        for tensor in tensors:
            if tensor.device.type == "cpu" and tensor.is_contiguous():
                clear(self.bits.numpy(), raw_bits(tensor.detach().view(-1)))
            else:
                others.append(tensor)
        if others:
            pruned = self.pruned()
            for tensor in others:
                tensor.detach().masked_fill_(pruned, 0)

    @property
    def count(self) -> int:
        """The number of pruned elements."""
        if self.bits.device.type == "cpu":
            return int(np.bitwise_count(self.bits.numpy()).sum(dtype=np.int64))
        return int(self.pruned().count_nonzero())
