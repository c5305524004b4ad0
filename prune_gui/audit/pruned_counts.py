"""A table of the pruned elements of every parameter."""

from __future__ import annotations

from dataclasses import dataclass

from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True)
class Row:
    """One parameter, or the sum of several.

    Attributes:
        name: name of the parameter.
        shape: shape of the parameter; () for several.
        dtype: dtype of the parameter; "" for several.
        pruned: number of pruned elements.
        total: number of elements.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    pruned: int
    total: int

    @property
    def sparsity(self) -> float:
        """The share of elements that is pruned, in [0, 1]."""
        return self.pruned / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class PrunedCounts:
    """What a recipe prunes in a checkpoint.

    Attributes:
        rows: one row per prunable parameter, in file order.
        total: the sum of all rows.
    """

    rows: tuple[Row, ...]
    total: Row


def pruned_counts(resolution: Resolution) -> PrunedCounts:
    """Return the number of pruned elements per parameter and in total. Reads no weights."""
    tensors = resolution.checkpoint.tensors
    rows = tuple(
        Row(name, tensors[name].shape, tensors[name].dtype, pruned, total)
        for name, (pruned, total) in resolution.counts.items()
    )
    return PrunedCounts(rows, Row("total", (), "", *resolution.total))
