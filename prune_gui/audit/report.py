"""All parameters side by side: what is pruned, as a table for people and programs."""

from __future__ import annotations

from dataclasses import dataclass

from prune_gui.recipe import Resolution


@dataclass(frozen=True, slots=True)
class Row:
    """One parameter, or several together.

    Attributes:
        name: of the parameter.
        shape: of the parameter; () for several.
        dtype: of the parameter; "" for several.
        pruned: entries.
        total: entries.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    pruned: int
    total: int

    @property
    def sparsity(self) -> float:
        """The share that is pruned."""
        return self.pruned / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a recipe prunes of a checkpoint.

    Attributes:
        rows: one per parameter that can be pruned, in file order.
        total: of all of them together.
    """

    rows: tuple[Row, ...]
    total: Row


def report(resolution: Resolution) -> Report:
    """Return what is pruned of each parameter and of all. Looks at no weight."""
    tensors = resolution.checkpoint.tensors
    rows = tuple(
        Row(name, tensors[name].shape, tensors[name].dtype, pruned, total)
        for name, (pruned, total) in resolution.counts.items()
    )
    return Report(rows, Row("total", (), "", *resolution.total))
