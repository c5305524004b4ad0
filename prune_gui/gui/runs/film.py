"""What the film of a run shows of a frame: pictures of masks and texts, without Qt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.language import deferred, join_clauses, tr
from prune_gui.number_formats import sparsity, sparsity_share
from prune_gui.raster.colours import Colours, ramp_table

if TYPE_CHECKING:
    from prune_gui.training.run_folder import Octets, Quantity, Run

QUANTITIES: Final[Mapping[Quantity, str]] = {
    "sparsity": deferred("Sparsity"),
    "norm": deferred("Norm"),
    "from_first": deferred("Moved from the first"),
    "from_previous": deferred("Moved since the last"),
}
EXACT: Final = 1 << 22
"""Elements up to which each column is counted; of larger matrices, 8 columns at a time."""
LEVELS: Final = 255


def density(bits: Octets, shape: tuple[int, ...], height: int, width: int) -> NDArray[np.float32]:
    """Return the share of pruned elements in each cell of a picture, (height, width) or smaller.

    Args:
        bits: the packed mask, see `PackedMask`.
        shape: of the parameter; the picture has a row for each index of the first dimension.
        height, width: the most cells.
    """
    rows = shape[0] if len(shape) > 1 else 1
    columns = int(np.prod(shape, dtype=np.int64)) // rows
    if rows * columns > EXACT and not columns % 8:
        counts, per_count = np.bitwise_count(bits).reshape(rows, columns // 8), 8
    else:
        flags = np.unpackbits(bits, count=rows * columns, bitorder="little")
        counts, per_count = flags.reshape(rows, columns), 1
    down, across = _starts(rows, height), _starts(counts.shape[1], width)
    sums = np.add.reduceat(counts, down, axis=0, dtype=np.uint32)
    sums = np.add.reduceat(sums, across, axis=1)
    sizes = np.outer(np.diff(down, append=rows), np.diff(across, append=counts.shape[1]))
    shares: NDArray[np.float32] = (sums / (sizes * per_count)).astype(np.float32)
    return shares


def _starts(size: int, most: int) -> NDArray[np.intp]:
    cells = max(1, min(size, most))
    return np.arange(cells, dtype=np.intp) * size // cells


def pixels(shares: NDArray[np.float32], colours: Colours) -> NDArray[np.uint8]:
    """Return the picture of densities, uint8 (height, width, 4): RGBA, as a step is drawn."""
    table = ramp_table((colours.kept, colours.steps[0]), LEVELS + 1)
    return table[np.rint(shares * LEVELS).astype(np.uint8)]


def frame_text(run: Run, index: int) -> str:
    """Describe a frame: its step, the share that is pruned, what changed, and the loss."""
    frame = run.frames[index]
    total = sum(map(run.total, frame.pruned))
    share = sparsity(sum(frame.pruned.values()), total)
    is_checkpoint = frame.event == "checkpoint"
    parts = [
        tr("step {step:,}", step=frame.step),
        tr("{share} zero", share=share) if is_checkpoint else tr("{share} pruned", share=share),
    ]
    if index:
        changed = sum(frame.newly_pruned.values()) + sum(frame.newly_kept.values())
        parts.append(tr("{share} changed", share=sparsity(changed, total)))
    if frame.loss is not None:
        parts.append(tr("loss {loss:.4g}", loss=frame.loss))
    return join_clauses(parts)


def values_at(run: Run, index: int, quantity: Quantity) -> Iterator[tuple[str, float, float]]:
    """Yield name, value and its share of the largest one, in [0, 1], of each parameter in a frame.

    Of a share of elements, the largest is 1; else, it is that of all frames and parameters.
    """
    if quantity == "sparsity":
        for name in run.shapes:
            share = run.frames[index].pruned.get(name, 0) / run.total(name)
            yield name, share, share
        return
    curves = {name: run.curve(quantity, name) for name in run.shapes}
    largest = max((float(np.nanmax(curve, initial=0.0)) for curve in curves.values()), default=0.0)
    for name, curve in curves.items():
        yield name, float(curve[index]), float(np.nan_to_num(curve[index])) / (largest or 1.0)


def value_text(value: float, quantity: Quantity) -> str:
    """Return a value as the cell of a parameter shows it."""
    return f"{value:.3g}" if quantity == "norm" else sparsity_share(value)


def survival_text(first: Octets, second: Octets, total: int) -> str:
    """Return how many of the elements that one mask keeps, another one keeps, too."""
    kept = [total - int(np.bitwise_count(bits).sum(dtype=np.int64)) for bits in (first, second)]
    either = int(np.bitwise_count(first | second).sum(dtype=np.int64))
    if not kept[0]:
        return ""
    return tr(
        "{share} of what the first run keeps, the second keeps; by chance {chance}",
        share=sparsity_share((total - either) / kept[0]),
        chance=sparsity_share(kept[1] / total),
    )
