"""The interface of an open checkpoint of any format."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from prune_gui.checkpoint.parameters import dequantized, parameters
from prune_gui.checkpoint.refusal import refusing, refusing_read
from prune_gui.checkpoint.remote.access import fetch_limit
from prune_gui.checkpoint.source import Source, byte_chunks
from prune_gui.checkpoint.tensor_info import RawTensor, TensorInfo
from prune_gui.checkpoint.tree import module_tree, module_types_around
from prune_gui.errors import CheckpointError, one_line, valid_text
from prune_gui.location import Location
from prune_gui.memory import gc_paused
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    import torch


CHUNK_ELEMENTS: Final = 1 << 20
UNASKED_FETCH_BYTES: Final = 1 << 24
PARSING: Final = frozenset(
    ("read_key", "view_key", "view_key_span", "view_keys", "nbytes_outside", "has_moments")
)
"""The methods of formats that may parse what opening a file has left; see `refusing`."""

Read = Callable[[str], Iterator[memoryview]]
"""A function that yields the bytes of a dense tensor by its raw key, at most 4 MiB at a time."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the files and folders around a checkpoint say about it; see `Checkpoint`.

    `models` are the names of the models of a pipeline, including the open one, which is `model`;
    `pipeline` is its folder if that was opened, and not one of the models.
    """

    description: str = ""
    remarks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    model: str = ""
    pipeline: Path | None = None
    hf_config: Mapping[str, int] = field(default_factory=dict)
    model_types: tuple[str, ...] = ()


NO_SURROUNDINGS: Final = Surroundings()


class Checkpoint(ABC):
    """An open checkpoint, which reads values on demand. A context manager.

    Attributes:
        location: where the file, or the index of shards, is; as a text, what to show for it.
        files: the files that hold the tensors: `path` itself, or the shards.
        format: the name of the `FileFormat`; for shards, of each shard.
        tensors: the parameters by name, in file order. A reparametrized pair is one parameter;
            tied tensors are one parameter with aliases.
        raw: the tensors by the keys of the file, in file order, before pairs and ties are merged.
        file_warnings: the remarks on the content of the file that its reader passed.
        warnings: all remarks for the user, one sentence each; also on the tensors and what is
            around the file.
        candidates: the names of the state dicts of a torch file, or of the models of a pipeline,
            including the open one, `state_dict`; () if there is no choice.
        pipeline: the folder of a pipeline that was opened, of which this is one model; else None.
        root: the keys, indices and attributes that lead from the top of each file to the state
            dict.
        description: a few words on the model from the config.json beside the file, or "".
        hf_config: the positive integers in that config.json, such as "num_attention_heads", and
            those of models in it, such as "vision_config.num_attention_heads".
        model_types: the families of the network and of its text model in that config.json, such as
            "llama"; () if unknown.
        foreign: the dotted names of the classes and functions in a torch file that `torch.load`
            refuses with weights_only=True; () for most files. Nothing of them was loaded.
        module_classes: the dotted names of the classes of modules by their paths, if the file
            contains them.
    """

    format: str
    is_part = False
    """Whether this is one file of several that open together."""

    def __init_subclass__(cls) -> None:
        for name in PARSING & vars(cls).keys():
            setattr(cls, name, refusing_read(vars(cls)[name]))

    def __init__(
        self,
        path: Path,
        raw: Mapping[str, RawTensor],
        metadata: Mapping[str, str],
        warnings: tuple[str, ...] = (),
        *,
        files: Sequence[Path] = (),
        candidates: tuple[str, ...] = (),
        state_dict: str = "",
        root: tuple[str | int, ...] = (),
        surroundings: Surroundings = NO_SURROUNDINGS,
        foreign: tuple[str, ...] = (),
        module_classes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        tensors, remarks = parameters(raw, surroundings.hf_config, root)
        if len(candidates) <= 1 and surroundings.models:
            candidates, state_dict = surroundings.models, surroundings.model
        self.location = Location.at(path)
        self.files: tuple[Path, ...] = tuple(files) or (path,)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(tensors)
        self.raw: Mapping[str, RawTensor] = MappingProxyType(dict(raw))
        self.keys = tuple(raw)
        valid = {valid_text(key): valid_text(value) for key, value in metadata.items()}
        self.metadata: Mapping[str, str] = MappingProxyType(valid)
        self.file_warnings = warnings
        all_remarks = map(one_line, (*warnings, *remarks, *surroundings.remarks))
        self.warnings = tuple(dict.fromkeys(all_remarks))
        self.candidates = candidates
        self.state_dict = state_dict
        self.pipeline = surroundings.pipeline
        self.root = root
        self.description = surroundings.description
        self.hf_config: Mapping[str, int] = MappingProxyType(dict(surroundings.hf_config))
        self.model_types = surroundings.model_types
        self.foreign = foreign
        self.module_classes: Mapping[str, str] = MappingProxyType(dict(module_classes))

    @property
    def path(self) -> Path:
        """The file, or the index of shards; of a remote checkpoint, what stands for it."""
        return self.location.path

    @property
    def url(self) -> str | None:
        """The URL of a remote checkpoint, else None."""
        return self.location.url

    @property
    def loads_without_code(self) -> bool:
        """Whether plain `torch.load` (weights_only=True) accepts all names in a torch file."""
        return not self.foreign

    def read(self, name: str) -> torch.Tensor:
        """Return a parameter as it is stored; for a pair, the original. See `read_values`, too.

        The caller must not write to the tensor: later reads may return the same memory. A write
        never reaches the file.

        Raises:
            CheckpointError: there is no such parameter, or its values cannot be read.
        """
        return self.read_key(self._key(name))

    def view(self, name: str) -> torch.Tensor:
        """Return the tensor that `read` returns, from a cache of recent reads."""
        return self.view_key(self._key(name))

    def views(self, names: Iterable[str]) -> list[torch.Tensor]:
        """Return the flat values of parameters, in order; see `view`.

        Parameters that are adjacent in the file and have the same dtype are returned as one tensor,
        so that reading many small ones takes no longer than reading a large one.
        """
        return self.view_keys(list(map(self._key, names)))

    def view_span(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Return the elements [start, stop) of the flat values of a parameter; see `view`.

        Only these are fetched of a remote file whose tensors are plain bytes.
        """
        return self.view_key_span(self._key(name), start, stop)

    def read_values(self, name: str) -> torch.Tensor:
        """Return the numbers that a parameter stands for: codes times their scales, float32.

        Without scales this is what `read` returns.
        """
        info = self._info(name)
        if info.scale is None:
            return self.read(name)
        return self.values_span(name, 0, info.numel).reshape(info.shape)

    def values_span(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Return the elements [start, stop) of the flat `read_values`; see `view_span`."""
        stored, info = self.view_span(name, start, stop), self._info(name)
        if info.scale is None:
            return stored
        scales = self.view_key(info.scale.key).detach()
        return dequantized(stored.detach(), start, info.shape, scales, info.scale)

    def read_mask(self, name: str) -> torch.Tensor | None:
        """Return the mask of a reparametrized pair as torch.bool, True where kept; else None.

        Raises:
            CheckpointError: there is no such parameter, or its mask has values other than 0 and 1.
        """
        pair = self._info(name).pair
        if pair is None:
            return None
        import torch  # slow to import

        stored = self.read_key(pair[1])
        if stored.dtype == torch.bool:
            stored = stored.view(torch.uint8)
        mask = torch.empty(stored.shape, dtype=torch.bool)
        values, kept = stored.reshape(-1), mask.reshape(-1)
        for start in range(0, values.numel(), CHUNK_ELEMENTS):
            chunk = values[start : start + CHUNK_ELEMENTS].to(torch.float64)
            if not bool(((chunk == 0) | (chunk == 1)).all()):
                raise CheckpointError(
                    "{file}: the mask {key!r} holds values other than 0 and 1. "
                    "Make it 0 where pruned and 1 where kept, and save the checkpoint again.",
                    file=self.path.name,
                    key=pair[1],
                )
            kept[start : start + CHUNK_ELEMENTS] = chunk == 1
        return mask

    @cached_property
    def weight_names(self) -> frozenset[str]:
        """The names of the prunable parameters that totals count: those that are weights.

        Running statistics, for example, are none (see `TensorInfo.kind`).
        """
        return frozenset(
            info.name for info in self.tensors.values() if not info.not_prunable and not info.kind
        )

    @cached_property
    @gc_paused()
    def module_types(self) -> Mapping[str, frozenset[str]]:
        """The types of the modules that contain each parameter: their classes, or inferred."""
        with refusing(self.path):
            return module_types_around(module_tree(self.tensors.values(), self.module_classes))

    @abstractmethod
    def read_key(self, key: str) -> torch.Tensor:
        """Return the tensor stored under a raw key of the file; see `read`."""

    def view_key(self, key: str) -> torch.Tensor:
        """Return the tensor stored under a raw key of the file; see `view`."""
        return self.read_key(key)

    def view_key_span(self, key: str, start: int, stop: int) -> torch.Tensor:
        """Return a span of the flat tensor stored under a raw key of the file; see `view_span`."""
        tensor = self.view_key(key)
        if tensor.dim() > 1:  # reshaping copies a strided tensor
            per_row = max(1, math.prod(tensor.shape[1:]))
            first = start // per_row
            tensor = tensor[first : -(-stop // per_row)]
            start, stop = start - first * per_row, stop - first * per_row
        return tensor.reshape(-1)[start:stop]

    def view_keys(self, keys: Sequence[str]) -> list[torch.Tensor]:
        """Return the flat tensors stored under raw keys of the file; see `views`."""
        return [self.view_key(key).reshape(-1) for key in keys]

    @contextmanager
    def stored_reader(self) -> Iterator[Read]:
        """Yield a function that reads the dense tensors for checking what the disk holds.

        It raises OSError or CheckpointError if the values cannot be read.
        """
        yield lambda key: byte_chunks(self.view_key(key).reshape(-1))

    def state_code(self, loaded: str) -> str:
        """Return a Python expression for the state dict, given one that reads the file.

        It reads a file only if `loads_without_code`.
        """
        return loaded + "".join(f"[{key!r}]" for key in self.root)

    def nbytes_outside(self) -> int:
        """Return the approximate bytes of values that are not dense tensors of the state dict."""
        return 0

    @property
    def other_objects(self) -> tuple[str, ...]:
        """What the file holds besides tensors and metadata, and other formats do not, by name."""
        return ()

    @abstractmethod
    def missing_nbytes(self, names: Iterable[str]) -> int:
        """Return the bytes to fetch before these parameters can be read; 0 for local files."""

    @property
    def is_fetched(self) -> bool:
        """Whether views may read everything unasked, because next to nothing is fetched."""
        return self.url is None or self.missing_nbytes(self.tensors) <= UNASKED_FETCH_BYTES

    def check_fetch(self, names: Iterable[str]) -> None:
        """Raise FetchLimitError if the user has to agree before these parameters are fetched."""
        if self.url is not None:
            fetch_limit.check(self.url, self.missing_nbytes(names))

    @abstractmethod
    def fetch(self, monitor: Monitor) -> None:
        """Fetch all of a remote checkpoint; the files of a local one are there."""

    @property
    @abstractmethod
    def model_files_folder(self) -> Path:
        """The folder with the files of the model beside its weights, such as the tokenizer.

        Those of a remote checkpoint are fetched first, or CheckpointError says why not.
        """

    def has_moments(self) -> bool:
        """Return whether the file has an optimizer state with tensors, as Adam's moments."""
        return False

    @abstractmethod
    def check(self) -> None:
        """Raise CheckpointError if the file is closed, or was changed since it was opened."""

    @abstractmethod
    def file_states(self) -> Mapping[str, tuple[int, int]]:
        """Return size in bytes and modification time in ns at the opening, by file name."""

    def files_digest(self) -> bytes:
        """Return a digest of `file_states`, of 16 bytes."""
        states = repr(sorted(self.file_states().items()))
        return hashlib.blake2b(states.encode(), digest_size=16).digest()

    @abstractmethod
    def fingerprint(self, monitor: Monitor) -> str:
        """Return "sha256:<hex>" of the file that was opened, even if another one has replaced it.

        For shards, this is the digest of the lines that `sha256sum` prints, sorted by name.
        CheckpointError says that the file cannot be read, or was changed.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the file. Tensors that were read stay valid; further reads fail."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _key(self, name: str) -> str:
        """Return the key of the values of a parameter: of a pair, the original."""
        info = self._info(name)
        return info.pair[0] if info.pair else info.name

    def _info(self, name: str) -> TensorInfo:
        info = self.tensors.get(name)
        if info is None:
            raise CheckpointError(
                "{file} has no parameter {name!r}.", file=self.path.name, name=name
            )
        return info


class FileCheckpoint(Checkpoint):
    """A checkpoint in one file, which is opened once and stays open."""

    source: Source

    def missing_nbytes(self, names: Iterable[str]) -> int:
        keys = [key for name in names for key in self.tensors[name].pair or (name,)]
        return self.missing_nbytes_of_keys(keys)

    def missing_nbytes_of_keys(self, keys: Sequence[str]) -> int:
        """Return the bytes to fetch before the tensors under raw keys can be read: most of all."""
        return self.source.missing_nbytes([(0, self.source.size)])

    def fetch(self, monitor: Monitor) -> None:
        self.source.fetch(monitor)

    @cached_property
    def model_files_folder(self) -> Path:
        return self.source.model_files_folder()

    def check(self) -> None:
        self.source.check()

    def file_states(self) -> Mapping[str, tuple[int, int]]:
        return {self.path.name: self.source.state}

    def fingerprint(self, monitor: Monitor) -> str:
        return self.source.fingerprint(monitor)

    def close(self) -> None:
        self.source.close()
