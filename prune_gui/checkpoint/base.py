"""What every open checkpoint offers, whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from prune_gui.checkpoint.gc_paused import gc_paused
from prune_gui.checkpoint.parameters import RawTensor, parameters
from prune_gui.checkpoint.tensor_info import TensorInfo
from prune_gui.checkpoint.tree import module_tree, module_types_around
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import tr

if TYPE_CHECKING:
    import torch

    from prune_gui.monitor import Monitor

Format = Literal["safetensors", "torch"]
SUFFIXES: Final[Mapping[str, Format]] = {
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".bin": "torch",
    ".ckpt": "torch",
}
KNOWN_SUFFIXES: Final = ", ".join(SUFFIXES)

CHUNK_ENTRIES: Final = 1 << 20


def format_of(out: Path) -> Format:
    """Return the format that the name of a file to write asks for.

    Raises:
        CheckpointError: it asks for none.
    """
    form = SUFFIXES.get(out.suffix.lower())
    if form is None:
        raise CheckpointError(
            tr(
                "{name} does not say which format to write. End its name in one of {suffixes}.",
                name=out.name,
                suffixes=KNOWN_SUFFIXES,
            )
        )
    return form


class Checkpoint(ABC):
    """An open checkpoint: what it holds, and its values on demand. A context manager.

    Attributes:
        path: the file; of shards, their index.
        files: those that hold the tensors: the file itself, or the shards.
        format: how it is stored.
        tensors: the parameters by name, in file order. The two members of a reparametrized pair are
            one parameter, tied tensors are one with aliases.
        raw: the tensors by the file's own keys, in file order, before any were folded into one.
        keys: the keys of `raw`.
        metadata: the strings that the file carries.
        warnings: what a person should know about the file, one sentence each.
        candidates: the names of the state dicts in a torch file, or of the models of a pipeline,
            that could be opened instead, the open one among them; () if there is no choice.
        state_dict: the name of the open one; "" if there is no choice.
        root: the keys that lead from the top of each file to the state dict.
        description: what a config.json beside the file says of the model, in a few words, or "".
    """

    format: Format
    root: tuple[str, ...] = ()

    def __init__(
        self,
        path: Path,
        raw: Mapping[str, RawTensor],
        metadata: Mapping[str, str],
        warnings: tuple[str, ...] = (),
    ) -> None:
        found, remarks = parameters(raw)
        self.path = path
        self.files: tuple[Path, ...] = (path,)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(found)
        self.raw: Mapping[str, RawTensor] = MappingProxyType(dict(raw))
        self.keys = tuple(raw)
        self.metadata: Mapping[str, str] = MappingProxyType(dict(metadata))
        self.warnings = tuple(map(one_line, (*warnings, *remarks)))
        self.candidates: tuple[str, ...] = ()
        self.state_dict = ""
        self.description = ""

    def read(self, name: str) -> torch.Tensor:
        """Return the values of a parameter; of a pair, the original ones.

        The tensor is to be read, not written to: it may share memory with what later reads see.
        The file itself is out of reach of any write.

        Raises:
            CheckpointError: no such parameter, or its values cannot be read.
        """
        info = self._info(name)
        return self.read_key(info.pair[0] if info.pair else info.name)

    def view(self, name: str) -> torch.Tensor:
        """Return what `read` does, faster if asked again soon; a write would be seen by others.

        Raises:
            CheckpointError: as `read`.
        """
        info = self._info(name)
        return self.view_key(info.pair[0] if info.pair else info.name)

    def views(self, names: Iterable[str]) -> list[torch.Tensor]:
        """Return the flat values of parameters, in order; see `view`.

        Those that lie side by side in the file are one tensor if they have one dtype: to ask for
        many small ones takes no longer than for a large one.

        Raises:
            CheckpointError: as `read`.
        """
        infos = map(self._info, names)
        return self.view_keys([info.pair[0] if info.pair else info.name for info in infos])

    def read_mask(self, name: str) -> torch.Tensor | None:
        """Return the mask of a reparametrized pair as torch.bool, True where kept; else None.

        Raises:
            CheckpointError: no such parameter, or its mask holds values other than 0 and 1.
        """
        pair = self._info(name).pair
        if pair is None:
            return None
        import torch

        stored = self.read_key(pair[1])
        if stored.dtype == torch.bool:
            stored = stored.view(torch.uint8)
        mask = torch.empty(stored.shape, dtype=torch.bool)
        values, kept = stored.reshape(-1), mask.reshape(-1)
        for start in range(0, values.numel(), CHUNK_ENTRIES):
            part = values[start : start + CHUNK_ENTRIES].to(torch.float64)
            if not bool(((part == 0) | (part == 1)).all()):
                raise CheckpointError(
                    tr(
                        "{file}: the mask {key!r} holds values other than 0 and 1. "
                        "Make it 0 where pruned and 1 where kept, and save the checkpoint again.",
                        file=self.path.name,
                        key=pair[1],
                    )
                )
            kept[start : start + CHUNK_ENTRIES] = part == 1
        return mask

    @cached_property
    @gc_paused()
    def kinds(self) -> Mapping[str, frozenset[str]]:
        """The kinds of the modules around each parameter, as far as names and shapes tell."""
        return module_types_around(module_tree(self.tensors.values()))

    @abstractmethod
    def read_key(self, key: str) -> torch.Tensor:
        """Return the tensor stored under a raw key of the file; see `read`.

        Raises:
            CheckpointError: no such key, or its values cannot be read.
        """

    def view_key(self, key: str) -> torch.Tensor:
        """Return the tensor stored under a raw key of the file; see `view`.

        Raises:
            CheckpointError: as `read_key`.
        """
        return self.read_key(key)

    def view_keys(self, keys: Sequence[str]) -> list[torch.Tensor]:
        """Return the flat tensors stored under raw keys of the file; see `views`.

        Raises:
            CheckpointError: as `read_key`.
        """
        return [self.view_key(key).reshape(-1) for key in keys]

    def nbytes_beside(self) -> int:
        """Return about how many bytes a file like this one holds beside its dense tensors.

        Others than torch files hold no values there.
        """
        return 0

    @abstractmethod
    def check(self) -> None:
        """Check that nobody has changed the file since it was opened.

        Raises:
            CheckpointError: somebody has, or it is closed.
        """

    @abstractmethod
    def fingerprint(self, monitor: Monitor) -> str:
        """Return "sha256:<hex>" of the file that was opened, even if another took its place.

        That of shards is the digest of the lines that `sha256sum` prints for them, sorted by name.

        Raises:
            CheckpointError: the file cannot be read, or was changed since.
            Cancelled: the monitor says so.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the file. Tensors that were read stay valid; nothing more can be read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _info(self, name: str) -> TensorInfo:
        info = self.tensors.get(name)
        if info is None:
            raise CheckpointError(
                tr("{file} has no parameter {name!r}.", file=self.path.name, name=name)
            )
        return info
