"""The film of a run: how masks changed, in a folder that can be read while it is written.

``events.jsonl`` has a line for each change of the masks, see `Frame`. ``masks-<step>.safetensors``
has the packed bits of each parameter (see `PackedMask`) that differ from the frame before; the
first has all, and its metadata the shapes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from prune_gui.errors import TrainingError

EVENTS: Final = "events.jsonl"
SHAPES: Final = "shapes"

Octets = NDArray[np.uint8]
Event = Literal["start", "pruned", "replaced", "rewound", "checkpoint"]
Quantity = Literal["sparsity", "changed", "norm", "from_first", "from_previous"]
"""What `Run.curve` shows: shares in [0, 1], and norms; the last two are norms of differences,
relative to the norm of the values before."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The masks from a step on.

    Attributes:
        step: optimizer steps before it.
        event: what changed them.
        pruned: by name, the number of pruned elements.
        newly_pruned, newly_kept: by name, the elements that differ from the frame before.
        loss: the latest loss that was told, or None.
        file: the name of the file of masks.
    """

    step: int
    event: Event
    pruned: Mapping[str, int]
    newly_pruned: Mapping[str, int]
    newly_kept: Mapping[str, int]
    loss: float | None
    file: str


class RunWriter:
    """Appends frames to a folder.

    Args:
        folder: it is made if it is missing.
        resumed_at: the step from which a run goes on, whose later frames are removed; None: it is
            a new run.

    Raises:
        TrainingError: the folder has frames of another run, or cannot be read or written.
    """

    def __init__(self, folder: str | os.PathLike[str], resumed_at: int | None) -> None:
        self._folder = Path(folder)
        self._bits: dict[str, Octets] = {}
        self._count = 0
        path = self._folder / EVENTS
        with writing_to(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            path.touch()
        if not path.stat().st_size:
            return
        if resumed_at is None:
            raise TrainingError(
                "{folder} has the frames of another run. Choose another folder, or resume it.",
                folder=self._folder,
            )
        run = Run(self._folder)
        frames = [frame for frame in run.frames if frame.step <= resumed_at]
        lines = "".join(json.dumps(asdict(frame)) + "\n" for frame in frames)
        part = path.with_suffix(".part")
        part.write_text(lines, encoding="utf-8")
        part.replace(path)  # a reader sees the old frames or the kept ones
        self._count = len(frames)
        if frames:
            self._bits = {name: run.bits(name, len(frames) - 1) for name in frames[-1].pruned}

    def add(
        self,
        step: int,
        event: Event,
        masks: Mapping[str, Octets],
        shapes: Mapping[str, Sequence[int]],
        loss: float | None,
    ) -> None:
        """Append the whole masks of a step, packed; nothing if none changed."""
        empty = {name: np.zeros_like(bits) for name, bits in masks.items()}
        before = empty | self._bits
        changes = {name: bits ^ before[name] for name, bits in masks.items()}
        changes = {name: bits for name, bits in changes.items() if bits.any()}
        if self._count and not changes:
            return
        file = f"masks-{step}-{self._count}.safetensors"
        frame = Frame(
            step,
            event,
            {name: _count(bits) for name, bits in masks.items()},
            {name: _count(bits & masks[name]) for name, bits in changes.items()},
            {name: _count(bits & before[name]) for name, bits in changes.items()},
            loss,
            file,
        )
        described = {name: list(shapes[name]) for name in masks}
        with writing_to(self._folder):
            save_file(changes or dict(masks), self._folder / file, {SHAPES: json.dumps(described)})
            with (self._folder / EVENTS).open("a", encoding="utf-8") as events:
                events.write(json.dumps(asdict(frame)) + "\n")
        self._bits = dict(masks)
        self._count += 1


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Raise TrainingError if files of a run cannot be written in a block."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            "{path} cannot be written: {reason}.", path=folder, reason=reason_of(error)
        ) from error


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read, without its path."""
    return str(error.strerror or error if isinstance(error, OSError) else error)


class Run:
    """A folder of frames, which may still be written to.

    Attributes:
        folder: the folder.
        frames: in order.
        shapes: of the parameters, by name.
        quantities: what `curve` can show over the frames.
        watched: the files and folders that change when there are more frames.

    Raises:
        TrainingError: it has no frames, or they cannot be read.
    """

    quantities: tuple[Quantity, ...] = ("sparsity",)

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.watched = [self.folder / EVENTS]
        self.frames: list[Frame] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._read_to = 0
        self._shown: dict[str, tuple[int, Octets]] = {}
        if not self.update():
            raise TrainingError(
                "{folder} has no frames of a run. Choose the folder that was given to keep(run=).",
                folder=self.folder,
            )

    def update(self) -> int:
        """Read the frames that were written since, and return their number."""
        path = self.folder / EVENTS
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._read_to:  # resumed at an earlier step
                    self.frames, self._read_to, self._shown = [], 0, {}
                file.seek(self._read_to)
                text = file.read()
            lines = text[: text.rfind(b"\n") + 1].splitlines()
            found = [Frame(**json.loads(line)) for line in lines]
            for frame in found:
                with safe_open(self.folder / frame.file, "np") as masks:
                    described = json.loads(masks.metadata()[SHAPES])
                now = {name: tuple(shape) for name, shape in described.items()}
                self.shapes = now | self.shapes  # in the order of the model, also of later ones
        except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
            raise TrainingError(
                "{path} cannot be read as a run: {reason}.", path=path, reason=reason_of(error)
            ) from error
        self._read_to += text.rfind(b"\n") + 1
        self.frames += found
        return len(found)

    def total(self, name: str) -> int:
        """Return the number of elements of a parameter."""
        return int(np.prod(self.shapes[name], dtype=np.int64))

    def bits(self, name: str, index: int) -> Octets:
        """Return the packed mask of a parameter in a frame; quickly if it is near the last one."""
        size = -(-self.total(name) // 8)
        at, bits = self._shown.get(name, (-1, np.zeros(size, np.uint8)))
        first, last = min(at, index) + 1, max(at, index)
        for frame in self.frames[first : last + 1]:
            if name in frame.newly_pruned or name in frame.newly_kept:
                with safe_open(self.folder / frame.file, "np") as masks:
                    bits = bits ^ masks.get_tensor(name)
        self._shown[name] = index, bits
        return bits

    def curve(self, quantity: Quantity, name: str | None = None) -> NDArray[np.float64]:
        """Return a quantity of a parameter in each frame; of all parameters together if None.

        Args:
            quantity: one of `quantities`, or "changed": the share of elements whose mask the frame
                changed.
            name: of the parameter.
        """
        if quantity == "changed":
            changes = ((f.newly_pruned, f.newly_kept) for f in self.frames)
            counts = [_sum(gained, name) + _sum(lost, name) for gained, lost in changes]
        else:
            counts = [_sum(frame.pruned, name) for frame in self.frames]
        names = self.shapes if name is None else [name]
        return np.array(counts, np.float64) / max(sum(map(self.total, names)), 1)


def _sum(counts: Mapping[str, int], name: str | None) -> int:
    return sum(counts.values()) if name is None else counts.get(name, 0)


def _count(bits: Octets) -> int:
    return int(np.bitwise_count(bits).sum(dtype=np.int64))
