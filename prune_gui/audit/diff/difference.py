"""Two checkpoints side by side: what differs, tensor by tensor, and which zeros came and went."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Literal

import torch

from prune_gui.audit.diff.tensor_diff import Side, TensorDiff, Zeros, common_dtype, diff_tensors
from prune_gui.audit.statistics.patterns import followed, possible
from prune_gui.checkpoint import Checkpoint, TensorInfo
from prune_gui.checkpoint.parameters import COMPILED, PARALLEL
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES
from prune_gui.monitor import CancelFlag, Monitor, Progress
from prune_gui.pruning.parallel import chunks, run
from prune_gui.pruning.selection.scores import TensorScores

State = Literal["identical", "equal", "changed", "shape", "not_compared", "only_in_a", "only_in_b"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One tensor in two checkpoints.

    Attributes:
        name: as the first checkpoint that has it names it; a reparametrized pair is one tensor, its
            values those of the original times the mask.
        aliases: further names that are tied to it in both.
        state: ``identical``: the same shape, type and bytes. ``equal``: the same numbers to the
            bit, stored otherwise. ``changed``: other values. ``shape``: another shape, values not
            compared. ``not_compared``: for the `reason`.
        a: of the first checkpoint; None if it has no such tensor.
        b: of the second.
        tensor_diff: element by element; None where values are not compared or are packed.
        reason: why they are not.
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
        """The n:m patterns that the tensor follows in the first checkpoint, and in the second.

        None if it can follow none, or there is nothing to tell.
        """
        zeros = self.tensor_diff.zeros if self.tensor_diff is not None else None
        patterns = possible(self.shown.shape)
        if zeros is None or not patterns:
            return None
        return followed(patterns, zeros.fewest_a), followed(patterns, zeros.fewest_b)


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs between two checkpoints.

    Attributes:
        rows: every tensor, in the order of the first checkpoint; then those only in the second.
        metadata: the keys whose strings differ, each with the one of the first and of the second
            checkpoint; None where there is none.
        notes: what a person should know of the names.
    """

    rows: tuple[Difference, ...]
    metadata: Mapping[str, tuple[str | None, str | None]]
    notes: tuple[str, ...]

    @property
    def states(self) -> Counter[State]:
        """How many tensors are in each state."""
        return Counter(row.state for row in self.rows)

    @property
    def zeros(self) -> Zeros:
        """The zeros of all tensors whose values were compared."""
        every = (row.tensor_diff.zeros for row in self.rows if row.tensor_diff is not None)
        return reduce(add, filter(None, every), Zeros())

    @property
    def identical(self) -> bool:
        """Whether every tensor is there in both, byte for byte."""
        return all(row.state == "identical" for row in self.rows)


def difference(
    a: Checkpoint, b: Checkpoint, progress: Progress | None = None, cancel: CancelFlag | None = None
) -> Differences:
    """Compare two checkpoints by the names of their tensors, every entry of every one.

    Needs a few chunks of memory, and of a reparametrized pair its mask.

    Args:
        a: the first.
        b: the second; may be the first.
        progress: called with (done, total) in bytes.
        cancel: for example a `threading.Event`.

    Raises:
        CheckpointError: values cannot be read.
        Cancelled: `cancel` was set.
    """
    monitor = Monitor(progress, cancel)
    pairs = list(_pairs(a, b))
    compared = [
        (one, other) for _, one, other in pairs if one and other and not _unlike(one, other)
    ]
    size = sum(one.nbytes + other.nbytes for one, other in compared)
    with monitor.plan(size):
        rows = tuple(_row(names, (a, one), (b, other), monitor) for names, one, other in pairs)
    metadata = {
        key: (a.metadata.get(key), b.metadata.get(key))
        for key in dict.fromkeys((*a.metadata, *b.metadata))
        if a.metadata.get(key) != b.metadata.get(key)
    }
    return Differences(rows, metadata, tuple(_about_prefixes(a, b)))


def _pairs(
    a: Checkpoint, b: Checkpoint
) -> Iterator[tuple[list[str], TensorInfo | None, TensorInfo | None]]:
    """Yield what to compare with what, and the names of both that stand for these two."""
    of_a, of_b = _by_name(a), _by_name(b)
    names: dict[tuple[str | None, str | None], list[str]] = {}
    for name in dict.fromkeys((*of_a, *of_b)):
        one, other = of_a.get(name), of_b.get(name)
        names.setdefault((one and one.name, other and other.name), []).append(name)
    for group in names.values():
        yield group, of_a.get(group[0]), of_b.get(group[0])


def _by_name(checkpoint: Checkpoint) -> dict[str, TensorInfo]:
    """Return the tensors by all their names; those of aliases come last."""
    infos = checkpoint.tensors.values()
    tied = {alias: info for info in infos for alias in info.aliases}
    return {**checkpoint.tensors, **tied}


def _row(
    names: list[str],
    one: tuple[Checkpoint, TensorInfo | None],
    other: tuple[Checkpoint, TensorInfo | None],
    monitor: Monitor,
) -> Difference:
    (file_a, a), (file_b, b) = one, other
    made = partial(Difference, names[0], tuple(names[1:]), a=a, b=b)
    monitor.advance()
    if a is None or b is None:
        return made("only_in_b" if a is None else "only_in_a")
    if reason := _unlike(a, b):
        return made("shape") if a.shape != b.shape else made("not_compared", reason=reason)
    sides = _side(file_a, a), _side(file_b, b)
    dtype = common_dtype(sides[0].entries.dtype, sides[1].entries.dtype)
    if dtype is None:
        return made("not_compared", reason="no type holds both exactly")
    found = _tally(*sides, dtype, monitor)
    made = partial(made, tensor_diff=None if a.dtype in PACKED_DTYPES else found)
    if found.differing:
        return made("changed")
    same = a.dtype == b.dtype and _stored_alike((file_a, a), (file_b, b), monitor)
    return made("identical" if same else "equal")


def _unlike(a: TensorInfo, b: TensorInfo) -> str | None:
    """Return why two tensors cannot be compared entry by entry, from what the headers say."""
    if a.shape != b.shape:
        return "another shape"
    packed = {a.dtype, b.dtype} & PACKED_DTYPES
    return a.special or b.special or ("packed" if packed and a.dtype != b.dtype else None)


def _tally(a: Side, b: Side, dtype: torch.dtype, monitor: Monitor) -> TensorDiff:
    """Compare two tensors of one shape from their first entry to the last."""
    width = a.entries.dtype.itemsize + b.entries.dtype.itemsize

    def compare(span: tuple[int, int]) -> TensorDiff:
        monitor.advance((span[1] - span[0]) * width)
        return diff_tensors(a, b, dtype, span)

    parts = run(compare, chunks(math.prod(a.entries.shape)))
    return reduce(add, parts, TensorDiff())


def _side(file: Checkpoint, info: TensorInfo) -> Side:
    """Return the values of a parameter: of a reparametrized pair, as its mask leaves them."""
    return Side(TensorScores.of(file.view(info.name)), file.read_mask(info.name))


def _stored_alike(
    one: tuple[Checkpoint, TensorInfo], other: tuple[Checkpoint, TensorInfo], monitor: Monitor
) -> bool:
    """Tell of two tensors of the same values and type whether their bytes are the same too."""
    (file_a, a), (file_b, b) = one, other
    if a.pair is None or b.pair is None:
        return a.pair is b.pair
    for key_a, key_b in zip(a.pair, b.pair, strict=True):
        stored = TensorScores.of(file_a.view_key(key_a)), TensorScores.of(file_b.view_key(key_b))
        dtype = stored[0].dtype
        sides = Side(stored[0]), Side(stored[1])
        if dtype != stored[1].dtype or _tally(*sides, dtype, monitor).differing:
            return False
    return True


def _about_prefixes(a: Checkpoint, b: Checkpoint) -> Iterator[str]:
    """Yield a note if all names differ by what training wraps around a model."""
    for prefix in (PARALLEL, COMPILED):
        for one, other in ((a, b), (b, a)):
            if one.tensors and {prefix + name for name in one.tensors} == {*other.tensors}:
                yield (
                    f"The names in {other.path.name} are those in {one.path.name} with {prefix!r} "
                    "in front. They are compared as they are."
                )
