"""The decision of `Block`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.errors import RecipeError
from prune_gui.language import deferred, tr
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.elements import target_scores
from prune_gui.pruning.decisions.target import Decision, Target, dimension
from prune_gui.pruning.decisions.units import Units, select_units
from prune_gui.pruning.methods.block import Block
from prune_gui.pruning.norms.unit_norms import block_norms
from prune_gui.pruning.predicates import BlockCut, Blocks

FLAT: Final = deferred(
    "{name} has shape {shape}; pruning blocks needs two dimensions or more. Leave it out of the "
    "targets, or use an unstructured method."
)


def decide(method: Block, targets: Sequence[Target], monitor: Monitor) -> list[Decision]:
    """Prune the k blocks of smallest norm among those with a remaining element."""
    return select_units([_units(method, target) for target in targets], method, monitor)


def _units(method: Block, target: Target) -> Units:
    blocks, scores = _blocks(method, target), target_scores(method, target)

    def rank(monitor: Monitor) -> NDArray[np.floating[Any]]:
        return block_norms(scores, target.remaining_mask, method.n, blocks, monitor).numpy()

    if target.remaining_mask is not None:
        remaining = blocks.count(target.remaining_mask)
    else:
        remaining = np.broadcast_to(
            np.int64(method.height * method.width), blocks.down * blocks.across
        )
    return Units(
        target=target,
        label=lambda: tr(
            "{name}, blocks of {height} x {width}",
            name=target.name,
            height=method.height,
            width=method.width,
        ),
        remaining_elements=remaining,
        rank=rank,
        rank_bytes=scores.nbytes,
        predicate=partial(BlockCut, blocks),
    )


def _blocks(method: Block, target: Target) -> Blocks:
    """Return the block grid of a target."""
    dimension(target, 0, min_dims=2, flat=FLAT)  # raises RecipeError if there are too few
    is_last = 0 < target.layout.output_dim == len(target.shape) - 1
    rows = target.shape[-1 if is_last else 0]
    columns = target.size // rows
    if method.tail == "refuse" and (rows % method.height or columns % method.width):
        raise RecipeError(
            tr(
                "{name} is {rows} x {columns} with its other dimensions flattened, and does not "
                "divide into blocks of {height} x {width}. Set tail to keep to leave the remainder "
                "unpruned, choose another block size, or leave it out of the targets.",
                name=target.name,
                rows=rows,
                columns=columns,
                height=method.height,
                width=method.width,
            )
        )
    if is_last:
        return Blocks(columns, rows, method.width, method.height)
    return Blocks(rows, columns, method.height, method.width)
