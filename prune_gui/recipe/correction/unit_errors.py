"""What the removal of a unit costs the layers that read it, if their kept weights make up for it.

With the damped second moments H of the inputs of a layer, a dense row w and the set S of kept
columns, the best weights are v_S = H_SS^-1 H_S: w (see `least_squares`). If the columns Q of a unit
go, too, the squared error of the outputs grows by v_Q [(H_SS^-1)_QQ]^-1 v_Q. This is Optimal Brain
Surgeon (Hassibi and Stork 1993) for columns, as Kurtic et al., "ZipLM: Inference-Aware Structured
Pruning of Language Models" (2023), remove structures. Here an eighth of the units goes at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.errors import RecipeError
from prune_gui.monitor import check_cancelled
from prune_gui.pruning.devices import chosen_device
from prune_gui.pruning.layouts import CoupledGroup
from prune_gui.recipe.auxiliary_files import RecordedScores, recorded_tensor
from prune_gui.recipe.correction import least_squares

ROUNDS: Final = 8
DAMPING: Final = 0.01
"""Of the diagonal, as a share of its mean; as `Refit` has it by default."""


class _Reader:
    """A layer that reads units: its weights, (rows, columns), and the moments of its inputs.

    Args:
        columns: of each unit, (units, width).
    """

    def __init__(self, rows: Tensor, moments: Tensor, columns: Tensor) -> None:
        damped = moments.float().clone()
        diagonal = damped.diagonal()
        diagonal += DAMPING * diagonal.mean() + (diagonal == 0)
        self._moments, self._columns = damped, columns
        self._outputs = torch.nan_to_num(rows.float(), 0.0, 0.0, 0.0) @ damped

    def errors(self, left: Tensor) -> Tensor:
        """Return by how much the squared error grows without each of the units that are left."""
        own = self._columns[left]
        kept = own.flatten()
        factor, failed = torch.linalg.cholesky_ex(self._moments[kept][:, kept])
        if bool(failed):
            raise least_squares.NotPositiveDefiniteError
        inverse = torch.cholesky_inverse(factor)
        weights = (self._outputs[:, kept] @ inverse).view(-1, *own.shape).permute(1, 2, 0)
        blocks = inverse.view(*own.shape, *own.shape).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
        is_single = own.shape[1] == 1  # a division is much faster
        solved = weights / blocks if is_single else torch.linalg.solve(blocks, weights)
        errors: Tensor = (weights * solved).sum((1, 2))
        return errors


@dataclass(frozen=True)
class UnitErrors:
    """The error that the removal of each unit of a group causes, by recorded second moments.

    It never decreases in the order in which units are removed, the least harmful first.

    Attributes:
        sources: each weight that reads units, its recorded moments, and whether it is (in, out).
    """

    checkpoint: Checkpoint
    file: Checkpoint
    group: CoupledGroup
    sources: tuple[tuple[TensorInfo, TensorInfo, bool], ...]
    dtype: torch.dtype = torch.float64

    @classmethod
    def of(
        cls,
        group: CoupledGroup,
        checkpoint: Checkpoint,
        file: Checkpoint,
        recorded: RecordedScores,
    ) -> UnitErrors:
        """Find the moments of the layers that read a group; no value is read."""
        sources: list[tuple[TensorInfo, TensorInfo, bool]] = []
        for name in dict.fromkeys(one.name for one in group.members if one.role == "consumes"):
            info = checkpoint.tensors[name]
            moments = recorded_tensor(file, recorded, info)
            transposed = recorded.name_of(info) in recorded.transposed
            is_read = any(
                (one.name, one.dim) == (name, int(not transposed)) for one in group.members
            )
            if moments is None or len(moments.shape) != 2 or not is_read:
                sources.clear()
                break
            sources.append((info, moments, transposed))
        if not sources:
            raise RecipeError(
                "{path} does not have the second moments of all layers that read {group}. Record "
                "them, or rank by the norms of the weights.",
                path=str(file.path),
                group=group.label,
            )
        return cls(checkpoint, file, group, tuple(sources))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of units."""
        return (self.group.size,)

    @property
    def nbytes(self) -> int:
        """Number of bytes to read: weights and moments."""
        return sum(info.nbytes + moments.nbytes for info, moments, _ in self.sources)

    def part(self, start: int, stop: int) -> Tensor:
        """Return the errors of the units [start, stop), float64."""
        try:
            return self._errors()[start:stop]
        except least_squares.NotPositiveDefiniteError as error:
            raise RecipeError(
                "{path}: the second moments of the inputs of {name} are not positive definite. "
                "Record them again, with more inputs.",
                path=str(self.file.path),
                name=self.sources[0][0].name,
            ) from error

    def _errors(self) -> Tensor:
        device = chosen_device()
        if device.type not in least_squares.FACTORIZING:
            device = torch.device("cpu")
        readers = [self._reader(*source, device) for source in self.sources]
        size = self.group.size
        left = torch.arange(size, device=device)
        errors = torch.zeros(size, dtype=torch.float64, device=device)
        least = 0.0
        rounds = min(ROUNDS, size)
        for later in reversed(range(rounds)):
            check_cancelled()
            found = torch.stack([reader.errors(left).double() for reader in readers]).sum(0)
            found = found.clamp_min(least)
            kept = size * later // rounds
            order = found.argsort(stable=True)
            removed = order[: len(order) - kept]
            errors[left[removed]] = found[removed]
            least = float(errors.max())
            left = left[order[len(removed) :].sort().values]
        return errors.cpu()

    def _reader(
        self, info: TensorInfo, moments: TensorInfo, transposed: bool, device: torch.device
    ) -> _Reader:
        weight = self.checkpoint.read_values(info.name)
        [rows] = least_squares.rows_of(weight, 1, transposed=transposed)
        dim = int(not transposed)
        channels = np.concatenate(
            [
                member.channels(self.group.size)
                for member in self.group.members
                if (member.name, member.dim) == (info.name, dim)
            ],
            axis=1,
        )
        positions = rows.shape[1] // info.shape[dim]
        columns = channels[:, :, None] * positions + np.arange(positions)
        return _Reader(
            rows.to(device),
            self.file.read_values(moments.name).to(device),
            torch.from_numpy(columns.reshape(len(columns), -1)).to(device),
        )
