"""A folder of checkpoints of a training, as a run: what became 0 in them, and what moved."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from prune_gui.checkpoint.folder import find_checkpoint
from prune_gui.checkpoint.formats import format_by_suffix
from prune_gui.checkpoint.opening import open_checkpoint
from prune_gui.checkpoint.tensor_info import PRUNABLE_DTYPES, TensorInfo
from prune_gui.errors import CheckpointError, TrainingError
from prune_gui.monitor import Monitor
from prune_gui.parallel import chunks, run
from prune_gui.pruning.selection.scores import wide_dtype
from prune_gui.training.run_folder import Frame, Octets, Quantity, Run

if TYPE_CHECKING:
    from prune_gui.checkpoint.base import Checkpoint

NUMBER: Final = re.compile(r"\d+")
BEFORE_STEP: Final = re.compile(r"step\D?$", re.IGNORECASE)
NOT_WEIGHTS: Final = re.compile(r"optim|sched|scaler|rng", re.IGNORECASE)
PART: Final = re.compile(r"-\d+-of-\d+\.")
OPENED_AT_ONCE: Final = 16

ZEROS, NEW_ZEROS, LOST_ZEROS, SQUARES, FROM_FIRST, FROM_PREVIOUS = range(6)
"""What is summed over the elements of a parameter: counts, and squares of values and of moves."""

Sums = NDArray[np.float64]
Values = NDArray[np.floating[Any]] | None
"""Flat values of a parameter; None if it is missing, or has not the shape of the first file."""


class CheckpointRun(Run):
    """Checkpoints of a training, such as ``checkpoint-500``, as frames; the zeros are the masks.

    Chunks of a few tensors are in memory at a time. A last checkpoint that cannot be read yet is
    left to the next `update`.

    Raises:
        TrainingError: the folder has fewer than two such files or folders.
        CheckpointError: one of them cannot be read.
    """

    quantities = ("sparsity", "norm", "from_first", "from_previous")

    def __init__(self, folder: str | os.PathLike[str], monitor: Monitor | None = None) -> None:
        self._monitor = monitor or Monitor()
        self._sums: dict[str, Sums] = {}  # (frames, kinds of sums)
        super().__init__(folder)

    def update(self) -> int:
        """Read the checkpoints that were written since, and return their number."""
        found = checkpoints_in(self.folder)
        if not self.frames and len(found) < 2:
            raise TrainingError(
                "{folder} has no frames of a run, and no checkpoints of several steps, such as "
                "checkpoint-500 and checkpoint-1000. Choose the folder that was given to "
                "keep(run=), or the one that has these checkpoints.",
                folder=self.folder,
            )
        read_to = self.frames[-1].step if self.frames else -1
        new = [one for one in found if one[0] > read_to]
        if new and not self._is_readable(new[-1][1]):
            new.pop()
        for start in range(0, len(new), OPENED_AT_ONCE):
            self._add(new[start : start + OPENED_AT_ONCE])
        read = {frame.file for frame in self.frames}
        inside = (path for path in _inside(self.folder) if path.name not in read)
        self.watched = [self.folder, *filter(_may_become_checkpoint, inside)]
        return len(new)

    def curve(self, quantity: Quantity, name: str | None = None) -> NDArray[np.float64]:
        """Return a quantity in each frame; see `Run.curve`."""
        if quantity in ("sparsity", "changed"):
            return super().curve(quantity, name)
        names = list(self.shapes) if name is None else [name]
        squares = np.sum([self._sums[one] for one in names], axis=0)
        norm: Sums = np.sqrt(squares[:, SQUARES])
        if quantity == "norm":
            return norm
        is_first = quantity == "from_first"
        distance = np.sqrt(squares[:, FROM_FIRST if is_first else FROM_PREVIOUS])
        before = np.full_like(norm, norm[0]) if is_first else np.r_[norm[:1], norm[:-1]]
        moved: Sums = np.divide(distance, before, out=np.zeros_like(norm), where=before != 0)
        return moved

    def bits(self, name: str, index: int) -> Octets:
        """Return where a parameter is 0 in a checkpoint, packed."""
        at, bits = self._shown.get(name, (-1, np.zeros(0, np.uint8)))
        if at != index:
            with ExitStack() as opened:
                checkpoint = self._open(opened, self.frames[index].file)

                read = _reader(checkpoint, name, self.shapes[name])

                def packed(span: tuple[int, int]) -> Octets:
                    values = read(span)
                    zeros = np.zeros(span[1] - span[0], bool) if values is None else values == 0
                    return np.packbits(zeros, bitorder="little")

                bits = np.concatenate(list(run(packed, chunks(self.total(name)))))
            self._shown = {name: (index, bits)}
        return bits

    def _open(self, opened: ExitStack, file: str) -> Checkpoint:
        return opened.enter_context(open_checkpoint(self.folder / file))

    def _is_readable(self, file: str) -> bool:
        try:
            with open_checkpoint(self.folder / file):
                return True
        except CheckpointError:
            return False

    def _add(self, found: Sequence[tuple[int, str]]) -> None:
        before = [self.frames[0].file, self.frames[-1].file] if self.frames else []
        with ExitStack() as opened:
            new = [self._open(opened, file) for _, file in found]
            reference = [
                self._open(opened, file) if (self.folder / file).exists() else None
                for file in before
            ] or [new[0], new[0]]
            if not before:
                weights = filter(_is_weight, new[0].tensors.values())
                self.shapes = {info.name: info.shape for info in weights}
            size = 4 * len(new) * sum(map(self.total, self.shapes))
            with self._monitor.plan(size), self._monitor.in_charge():
                sums = {name: self._measure(name, reference, new) for name in self.shapes}
        empty = np.empty((0, FROM_PREVIOUS + 1))
        self._sums |= {
            name: np.concatenate((self._sums.get(name, empty), more)) for name, more in sums.items()
        }
        for row, (step, file) in enumerate(found):
            known = {name: own[row] for name, own in sums.items() if not np.isnan(own[row, ZEROS])}
            zeros, gained, lost = (
                {name: int(own[kind]) for name, own in known.items()}
                for kind in (ZEROS, NEW_ZEROS, LOST_ZEROS)
            )
            self.frames.append(Frame(step, "checkpoint", zeros, gained, lost, None, file))

    def _measure(
        self, name: str, reference: Sequence[Checkpoint | None], new: Sequence[Checkpoint]
    ) -> Sums:
        """Return the sums of a parameter in new checkpoints; NaN in those without it."""
        shape = self.shapes[name]

        first, previous = (_reader(one, name, shape) for one in reference)
        readers = [_reader(one, name, shape) for one in new]

        def measure(span: tuple[int, int]) -> Sums:
            self._monitor.advance(4 * len(new) * (span[1] - span[0]))
            rows, start, before = [], first(span), previous(span)
            for read in readers:
                values = read(span)
                rows.append(_sums_of(values, start, before))
                before = values
            return np.array(rows)

        nothing = np.zeros((len(new), FROM_PREVIOUS + 1))
        return sum(run(measure, chunks(math.prod(shape))), nothing)


def _sums_of(values: Values, first: Values, previous: Values) -> list[float]:
    if values is None:
        return [math.nan] * (FROM_PREVIOUS + 1)
    zero = values == 0
    before = zero if previous is None else previous == 0
    counts = (int(np.count_nonzero(one)) for one in (zero, zero & ~before, before & ~zero))
    moved = (math.nan if old is None else _squares(values - old) for old in (first, previous))
    return [*counts, _squares(values), *moved]


def _squares(values: NDArray[np.floating[Any]]) -> float:
    return float(np.einsum("i,i->", values, values, dtype=np.float64))


def _reader(
    checkpoint: Checkpoint | None, name: str, shape: tuple[int, ...]
) -> Callable[[tuple[int, int]], Values]:
    info = None if checkpoint is None else checkpoint.tensors.get(name)
    if checkpoint is None or info is None or info.shape != shape:
        return lambda _: None
    mask = checkpoint.read_mask(name)

    def read(span: tuple[int, int]) -> Values:
        values = checkpoint.values_span(name, *span).detach()
        if mask is not None:
            values = values * mask.view(-1)[slice(*span)]
        wide: Values = values.to(wide_dtype(values.dtype)).numpy()
        return wide

    return read


def _is_weight(info: TensorInfo) -> bool:
    is_dense = info.special is None and info.dtype in PRUNABLE_DTYPES
    return is_dense and info.kind is None and info.numel > 0


def checkpoints_in(folder: Path) -> list[tuple[int, str]]:
    """Return step and name of the checkpoints of a training, by step.

    They are the largest group of checkpoints, files or folders, whose names differ in numbers only.
    """
    groups: dict[str, list[str]] = {}
    for path in _inside(folder):
        if _may_become_checkpoint(path) and (path.is_file() or _has_checkpoint(path)):
            groups.setdefault(NUMBER.sub("#", path.name), []).append(path.name)

    def rank(names: list[str]) -> tuple[bool, int]:
        return not NOT_WEIGHTS.search(names[0]), len(names)

    names = max(groups.values(), key=rank, default=[])
    numbers = [tuple(map(int, NUMBER.findall(name))) for name in names]
    position = _position_of_step(names[0], numbers) if names else 0
    order = sorted(zip(numbers, names, strict=True), key=lambda one: (one[0][position], one[0]))
    return [(own[position], name) for own, name in order]


def _inside(folder: Path) -> list[Path]:
    with TrainingError.on_os_error("{path} cannot be read as a run: {reason}.", path=folder):
        return sorted(folder.iterdir())


def _position_of_step(name: str, numbers: Sequence[tuple[int, ...]]) -> int:
    """Return which number of the names is the step: the one after "step", else one that varies."""
    for position, found in enumerate(NUMBER.finditer(name)):
        if BEFORE_STEP.search(name[: found.start()]):
            return position
    varying = (at for at, values in enumerate(zip(*numbers, strict=True)) if len({*values}) > 1)
    return next(varying, 0)


def _may_become_checkpoint(path: Path) -> bool:
    is_named = NUMBER.search(path.stem) and not path.name.startswith(".")
    return bool(is_named) and (
        path.is_dir() or (format_by_suffix(path) is not None and not PART.search(path.name))
    )


def _has_checkpoint(folder: Path) -> bool:
    try:
        find_checkpoint(folder)
    except CheckpointError:
        return False
    return True
