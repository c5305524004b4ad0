"""The results of a sweep as curves: the kept energy as a function of the sparsity. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from prune_gui.session.sweep import SweepRow


@dataclass(frozen=True, slots=True, eq=False)
class SweepCurve:
    """The points of both curves, by ascending sparsity, in percent; float64 (points,).

    `rows` has the index of the row of each point; rows with an error have none. Kept energies that
    are not defined are NaN.
    """

    rows: tuple[int, ...]
    sparsity: NDArray[np.float64]
    targets: NDArray[np.float64]
    worst: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lowest(self) -> float:
        """The lowest kept energy; 100.0 without one."""
        energies = np.concatenate([self.targets, self.worst])
        return float(np.min(energies, where=np.isfinite(energies), initial=100.0))

    def nearest(self, sparsity: float) -> int | None:
        """Return the index of the point with the nearest sparsity; None without points."""
        return int(np.abs(self.sparsity - sparsity).argmin()) if len(self) else None


def sweep_curve(rows: Sequence[SweepRow]) -> SweepCurve:
    """Return the curves of rows in any order."""
    valid = [index for index, row in enumerate(rows) if not row.error]
    valid.sort(key=lambda index: rows[index].sparsity)
    points = [
        (row.sparsity, row.target_energy, row.worst_energy)
        for row in (rows[index] for index in valid)
    ]
    sparsity, targets, worst = 100 * np.array(points, np.float64).reshape(-1, 3).T
    return SweepCurve(tuple(valid), sparsity, targets, worst)
