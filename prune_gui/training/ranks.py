"""The parts of tensors that each process of a distributed run holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from prune_gui.errors import TrainingError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> bool:
    """Return whether a tensor is a DTensor; without an import, which takes long."""
    return hasattr(tensor, "placements")


def local(tensor: Tensor) -> Tensor:
    """Return what this process holds of a tensor: a view of it, detached."""
    if not is_sharded(tensor):
        return tensor.detach()
    sharded: DTensor = tensor.detach()  # type: ignore[assignment] # is_sharded
    return sharded.to_local()


def whole(tensor: Tensor) -> Tensor:
    """Return a whole tensor; all processes of a sharded one must call it."""
    if not is_sharded(tensor):
        return tensor
    sharded: DTensor = tensor  # type: ignore[assignment] # is_sharded
    return sharded.full_tensor()


def local_part(values: Tensor, like: Tensor) -> Tensor:
    """Return the part of a whole tensor that this process holds of another one."""
    if not is_sharded(like):
        return values
    from torch.distributed.tensor import distribute_tensor  # slow to import

    return distribute_tensor(
        values,
        like.device_mesh,  # type: ignore[attr-defined] # is_sharded
        like.placements,  # type: ignore[attr-defined]
        src_data_rank=None,
    ).to_local()


def joined(part: Tensor, like: Tensor) -> Tensor:
    """Return the whole of which each process has the part that it holds of another tensor."""
    if not is_sharded(like):
        return part
    from torch.distributed.tensor import DTensor

    sharded = DTensor.from_local(
        part,
        like.device_mesh,  # type: ignore[attr-defined]
        like.placements,  # type: ignore[attr-defined]
        shape=like.shape,
        stride=tuple(torch.empty(like.shape, device="meta").stride()),
    )
    return sharded.full_tensor()


class Ranks:
    """The processes that hold rows of the same tensors, in order; they call its methods together.

    Args:
        tensors: the tensors.

    Raises:
        TrainingError: a tensor is divided otherwise than by rows.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        sharded = [tensor for tensor in tensors if is_sharded(tensor)]
        self._group = None
        for tensor in sharded:
            mesh, placements = tensor.device_mesh, tensor.placements  # type: ignore[attr-defined]
            if mesh.ndim > 1 or not placements[0].is_shard(0):
                raise TrainingError(
                    "A parameter is divided over {mesh} by {placements}. Magnitudes are ranked "
                    "where parameters are divided by rows over one dimension, as fully_shard does.",
                    mesh=mesh,
                    placements=placements,
                )
            self._group = mesh.get_group()
        if self._group is not None and len(sharded) < len(tensors):
            raise TrainingError(
                "Some targets are divided over the processes and some are not. Prune them in "
                "steps of their own."
            )

    @property
    def are_several(self) -> bool:
        """Whether the tensors are divided."""
        return self._group is not None

    def total(self, counts: Tensor) -> Tensor:
        """Return the sum of the counts of all processes."""
        if self._group is not None:
            torch.distributed.all_reduce(counts, group=self._group)
        return counts

    def before(self, counts: Tensor) -> Tensor:
        """Return, for each tensor, the sum of the counts of its earlier elements.

        These are all elements of the tensors before it, and of this tensor those of the processes
        before this one.

        Args:
            counts: of this process, one for each tensor, int64.
        """
        rank, everywhere = 0, [counts]
        if self._group is not None:
            rank = torch.distributed.get_rank(self._group)
            ranks = range(torch.distributed.get_world_size(self._group))
            everywhere = [torch.empty_like(counts) for _ in ranks]
            torch.distributed.all_gather(everywhere, counts, group=self._group)
        every = torch.stack(everywhere)
        per_tensor = every.sum(0)
        return per_tensor.cumsum(0) - per_tensor + every[:rank].sum(0)
