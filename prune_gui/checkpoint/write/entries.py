"""What is to be written, and where in the file each tensor goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.byte_chunks import byte_chunks
from prune_gui.checkpoint.parameters import MASK, ORIGINAL
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES, size_in_bytes

if TYPE_CHECKING:
    import torch

Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class TensorWriter:
    """One tensor to write.

    Attributes:
        name: its key in the file. If it is the name of a tied parameter (or that with `_orig` or
            `_mask` appended), it stands for the aliases too.
        dtype: see `ENTRY_BITS`.
        shape: its shape.
        chunks: called for the values: flat CPU tensors of this dtype that follow each other in
            row-major order (packed dtypes: of bytes). May be called more than once.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    chunks: Callable[[], Iterator[torch.Tensor]]

    @property
    def nbytes(self) -> int:
        """Bytes of all chunks together."""
        return size_in_bytes(self.shape, self.dtype)

    def octets(self) -> Iterator[memoryview]:
        """Yield the bytes of all chunks, a few megabytes at a time."""
        done = 0
        stored = "uint8" if self.dtype in PACKED_DTYPES else self.dtype
        for chunk in self.chunks():
            if str(chunk.dtype) != f"torch.{stored}":
                raise ValueError(f"a chunk of {self.name!r} is {chunk.dtype}, not {stored}")
            for piece in byte_chunks(chunk):
                done += len(piece)
                if done > self.nbytes:
                    break
                yield piece
        if done != self.nbytes:
            raise ValueError(f"the chunks of {self.name!r} do not have {self.nbytes} bytes")

    def checked(self, check: Callable[[], None]) -> TensorWriter:
        """Return this entry with a check before each chunk is made, and before it is used."""

        def chunks() -> Iterator[torch.Tensor]:
            check()
            for chunk in self.chunks():
                check()
                yield chunk
                check()

        return replace(self, chunks=chunks)


@dataclass(frozen=True, slots=True)
class KeyedWriter:
    """An entry under one key of the new file.

    Attributes:
        position: where it goes; the index of the tensor in the old file that it stands for.
        key: its key in the new file.
        entry: its values.
    """

    position: int
    key: str
    entry: TensorWriter

    def checked(self, check: Callable[[], None]) -> KeyedWriter:
        """Return the same with a check around each chunk; see `TensorWriter.checked`."""
        return replace(self, entry=self.entry.checked(check))


def place(entries: Sequence[TensorWriter], like: Checkpoint | None) -> list[KeyedWriter]:
    """Give every entry its keys, aliases included, in the order of `like`.

    Entries that stand for no tensor of `like` stay behind the one that they were given after.
    """
    given = {entry.name for entry in entries}
    if len(given) < len(entries):
        raise ValueError("two entries have the same name")
    positions = {key: index for index, key in enumerate(like.keys)} if like else {}
    placed = []
    position = -1
    for entry in entries:
        aliases = [name for name in _aliases(entry.name, like) if name not in given]
        position = home(entry.name, positions, otherwise=position)
        placed.append(KeyedWriter(position, entry.name, entry))
        placed.extend(
            KeyedWriter(home(alias, positions, otherwise=position), alias, entry)
            for alias in aliases
        )
    placed.sort(key=lambda item: item.position)
    return placed


def _aliases(name: str, like: Checkpoint | None) -> list[str]:
    if like is None:
        return []
    if name in like.tensors:
        return list(like.tensors[name].aliases)
    for suffix in (ORIGINAL, MASK):
        info = like.tensors.get(name.removesuffix(suffix))
        if name.endswith(suffix) and info is not None:
            return [alias + suffix for alias in info.aliases]
    return []


def home(key: str, places: Mapping[str, Place], *, otherwise: Place) -> Place:
    """Return the place of the old tensor that becomes `key`: itself, half of a pair, or both."""
    old = (
        key,
        key.removesuffix(ORIGINAL),
        key.removesuffix(MASK),
        key + ORIGINAL,
        key + MASK,
    )
    return next((places[name] for name in old if name in places), otherwise)
