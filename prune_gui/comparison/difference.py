"""The difference of two checkpoints, tensor by tensor, with gained and lost zeros."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Literal

import torch

from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.checkpoint.parameters import COMPILED_PREFIX, DATA_PARALLEL_PREFIX
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES
from prune_gui.comparison.tensor_diff import Side, TensorDiff, Zeros, common_dtype, diff_tensors
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.parallel import chunks, run
from prune_gui.pruning.selection.scores import TensorScores
from prune_gui.recipe.auxiliary_files import weight_reader
from prune_gui.statistics.dispatch import map_parameters
from prune_gui.statistics.pattern_scan import followed, possible

State = Literal["identical", "equal", "changed", "shape", "not_compared", "only_in_a", "only_in_b"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One tensor in two checkpoints.

    Attributes:
        name: its name in the first checkpoint that has it; a reparametrized pair is one tensor with
            the values ``X_orig * X_mask``.
        state: ``identical``: the same shape, dtype and bytes. ``equal``: bitwise the same numbers,
            stored differently. ``changed``: other values. ``shape``: another shape; values are not
            compared. ``not_compared``: see `reason`.
        tensor_diff: the comparison by element; None if values are not compared or are packed.
    """

    name: str
    aliases: tuple[str, ...]
    state: State
    a: TensorInfo | None
    b: TensorInfo | None
    tensor_diff: TensorDiff | None = None
    reason: str = ""

    @property
    def shown(self) -> TensorInfo:
        """The tensor of the second checkpoint, or of the first if that is the only one."""
        info = self.b or self.a
        assert info is not None
        return info

    @property
    def patterns(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The n:m patterns of the tensor in the first checkpoint, and in the second."""
        zeros = self.tensor_diff.zeros if self.tensor_diff is not None else None
        patterns = possible(self.shown.shape)
        if zeros is None or not patterns:
            return None
        return followed(patterns, zeros.fewest_a), followed(patterns, zeros.fewest_b)


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between two checkpoints.

    Attributes:
        rows: every tensor, in the order of the first checkpoint; then those only in the second.
        metadata: the keys whose strings differ, with the string of the first and of the second
            checkpoint; None where a key is missing.
    """

    rows: tuple[Difference, ...]
    metadata: Mapping[str, tuple[str | None, str | None]]
    notes: tuple[str, ...]

    @property
    def states(self) -> Counter[State]:
        return Counter(row.state for row in self.rows)

    @property
    def zeros(self) -> Zeros:
        every = (row.tensor_diff.zeros for row in self.rows if row.tensor_diff is not None)
        return reduce(add, filter(None, every), Zeros())

    @property
    def identical(self) -> bool:
        """Whether every tensor is in both checkpoints and byte-identical."""
        return all(row.state == "identical" for row in self.rows)


def difference(
    a: Checkpoint, b: Checkpoint, progress: Progress | None = None, cancel: CancelFlag | None = None
) -> Differences:
    """Compare two checkpoints, matching tensors by name; every element of every tensor.

    Needs a few chunks of memory, and for a reparametrized pair its mask.
    """
    monitor = Monitor(progress, cancel)
    pairs = list(_pairs(a, b))
    both = [(one, other) for _, one, other in pairs if one and other]
    size = sum(one.nbytes + other.nbytes for one, other in both if not _unlike(one, other))
    with monitor.plan(size):
        tasks = ((a, b, *pair) for pair in pairs)
        rows = tuple(map_parameters(_row, tasks, size, monitor))
    keys = dict.fromkeys((*a.metadata, *b.metadata))
    strings = {key: (a.metadata.get(key), b.metadata.get(key)) for key in keys}
    metadata = {key: (of_a, of_b) for key, (of_a, of_b) in strings.items() if of_a != of_b}
    return Differences(rows, metadata, tuple(_about_prefixes(a, b)))


def _pairs(
    a: Checkpoint, b: Checkpoint
) -> Iterator[tuple[list[str], TensorInfo | None, TensorInfo | None]]:
    """Yield the names of each pair of tensors to compare, and the tensors; None if missing."""
    of_a, of_b = _by_name(a), _by_name(b)
    names: dict[tuple[str | None, str | None], list[str]] = {}
    for name in dict.fromkeys((*of_a, *of_b)):
        one, other = of_a.get(name), of_b.get(name)
        names.setdefault((one and one.name, other and other.name), []).append(name)
    for group in names.values():
        yield group, of_a.get(group[0]), of_b.get(group[0])


def _by_name(checkpoint: Checkpoint) -> dict[str, TensorInfo]:
    infos = checkpoint.tensors.values()
    tied = {alias: info for info in infos for alias in info.aliases}
    return {**checkpoint.tensors, **tied}


def _row(
    task: tuple[Checkpoint, Checkpoint, list[str], TensorInfo | None, TensorInfo | None],
    monitor: Monitor,
) -> Difference:
    """Compare the tensor of some names in two checkpoints; None where it is missing."""
    file_a, file_b, (name, *aliases), a, b = task
    row = partial(Difference, name, tuple(aliases), a=a, b=b)
    monitor.advance()
    if a is None or b is None:
        return row("only_in_b" if a is None else "only_in_a")
    if reason := _unlike(a, b):
        return row("shape") if a.shape != b.shape else row("not_compared", reason=reason)
    sides = _side(file_a, a), _side(file_b, b)
    dtype = common_dtype(sides[0].entries.dtype, sides[1].entries.dtype)
    if dtype is None:
        return row("not_compared", reason="no type holds both exactly")
    tensor_diff = _diff_values(*sides, dtype, monitor)
    row = partial(row, tensor_diff=None if a.dtype in PACKED_DTYPES else tensor_diff)
    if tensor_diff.differing:
        return row("changed")
    same = a.dtype == b.dtype and _stored_alike(file_a, a, file_b, b, monitor)
    return row("identical" if same else "equal")


def _unlike(a: TensorInfo, b: TensorInfo) -> str | None:
    """Return why two tensors cannot be compared by element, from the headers; None if they can."""
    if a.shape != b.shape:
        return "another shape"
    packed = {a.dtype, b.dtype} & PACKED_DTYPES
    return a.special or b.special or ("packed" if packed and a.dtype != b.dtype else None)


def _diff_values(a: Side, b: Side, dtype: torch.dtype, monitor: Monitor) -> TensorDiff:
    width = a.entries.dtype.itemsize + b.entries.dtype.itemsize

    def compare(span: tuple[int, int]) -> TensorDiff:
        monitor.advance((span[1] - span[0]) * width)
        return diff_tensors(a, b, dtype, span)

    parts = run(compare, chunks(math.prod(a.entries.shape)))
    return reduce(add, parts, TensorDiff())


def _side(file: Checkpoint, info: TensorInfo) -> Side:
    """Return the values of a tensor; of a reparametrized pair, with its mask."""
    stored = info.scale is None
    entries = TensorScores.of(file.view(info.name)) if stored else weight_reader(file, info)
    return Side(entries, file.read_mask(info.name))


def _stored_alike(
    file_a: Checkpoint, a: TensorInfo, file_b: Checkpoint, b: TensorInfo, monitor: Monitor
) -> bool:
    """Return whether two tensors of equal values and dtype are also stored with equal bytes."""
    if (a.pair is None) != (b.pair is None):
        return False
    if a.pair is None and not (a.scale or b.scale):
        return True
    for key_a, key_b in zip(a.pair or (a.name,), b.pair or (b.name,), strict=True):
        one, other = (
            TensorScores.of(file_a.view_key(key_a)),
            TensorScores.of(file_b.view_key(key_b)),
        )
        if one.dtype != other.dtype:
            return False
        if _diff_values(Side(one), Side(other), one.dtype, monitor).differing:
            return False
    return True


def _about_prefixes(a: Checkpoint, b: Checkpoint) -> Iterator[str]:
    """Yield a note if all names differ by the prefix of a training wrapper."""
    for prefix in (DATA_PARALLEL_PREFIX, COMPILED_PREFIX):
        for one, other in ((a, b), (b, a)):
            if one.tensors and {prefix + name for name in one.tensors} == {*other.tensors}:
                yield (
                    f"The names in {other.path.name} are those in {one.path.name} with {prefix!r} "
                    "in front. They are compared as they are."
                )
