"""Checkpoints that torch.save wrote, read without running code from them."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import torch

from prune_gui.checkpoint.base import NO_SURROUNDINGS, FileCheckpoint, Surroundings
from prune_gui.checkpoint.named_code import code_statement, runs_programs, with_code_statement
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS, RawTensor
from prune_gui.checkpoint.torch.pickle_machine import MAX_OPCODES, MIN_OPCODES
from prune_gui.checkpoint.torch.state_dict_search import (
    BARE_TENSOR,
    ModuleState,
    Numbered,
    Root,
    State,
    has_moments,
    hidden_tensor_count,
    largest,
    name_of,
    state_dicts,
    tensors_of,
    with_weights,
)
from prune_gui.checkpoint.torch.storages import (
    FileStorages,
    LegacyStorages,
    UnreadStorages,
    ZipStorages,
    overlapping,
)
from prune_gui.checkpoint.torch.unpickling import Unpickled, ValuesNeededError, unpickle
from prune_gui.checkpoint.torch.zip_layout import (
    BYTE_ORDER,
    METADATA_RECORD,
    PICKLE_RECORD,
    SCRIPT_RECORD,
    VERSION_RECORD,
    TorchLayout,
    damaged_zip_error,
)
from prune_gui.errors import CheckpointError, one_line, valid_text
from prune_gui.language import deferred, listed, tr, trn

MAX_LISTED: Final = 5
REPEATED_VIEW: Final = deferred("repeated view")


class TorchCheckpoint(FileCheckpoint):
    """A file that torch.save wrote, zip or legacy.

    Uncompressed records of an archive are mapped copy-on-write: pages are loaded on first access,
    and no write reaches the file; those of a remote archive are mapped when they are read.
    Everything else is loaded into memory at opening.

    Attributes:
        content: the object that torch.load would return, with the state dict at `root`, and with
            records in place of objects that need code; see `Unpickled`. Its tensors have values
            only as `values_of` returns them.
        layout: the records of an archive; None of a legacy file.
        swapped: whether the values in the file are in the byte order of other machines.
    """

    format = "torch"

    def __init__(
        self,
        source: Source,
        state: str | None = None,
        surroundings: Surroundings = NO_SURROUNDINGS,
        *,
        values: bool = True,
    ) -> None:
        """Open the state dict `state`, or the largest one, with or without unmapped `values`."""
        self.source = source
        read, path = _read(source, values=values), source.path
        opened, storages = read.pickle, read.storages
        self.content = opened.value
        self.has_records, self._is_plain = opened.has_records, opened.is_plain
        self.layout, self.swapped = storages.layout, storages.swapped
        self.locations = tuple(storages.locations)
        self._nbytes = storages.nbytes
        self._unread = storages if isinstance(storages, UnreadStorages) else None
        with _explained(path.name):
            states = state_dicts(self.content)
        if not states:
            reason = tr(
                "{name} holds no state dict: no module, list, or dictionary with names in it has "
                "tensors (an optimizer's state does not count). Save `model.state_dict()`.",
                name=path.name,
            )
            raise CheckpointError(with_code_statement(reason, opened.foreign))
        if opened.foreign:  # objects of a trainer hold tensors that are no weights
            states = with_weights(states)
        root = read.root if read.root in states else largest(states)
        names = {name_of(root): root for root in reversed(states)}
        if state is not None:
            if state not in names:
                raise CheckpointError(
                    "{file} has no state dict {name!r}. Choose one of {names}.",
                    file=path.name,
                    name=state,
                    names=listed(list(states), _quoted_name, MAX_LISTED),
                )
            root = names[state]
        self.state = state_dict = states[root]
        hidden = hidden_tensor_count(self.content, states)
        remarks = code_statement(opened.foreign), *_remarks(root, states, hidden)
        super().__init__(
            path,
            _with_buffers(_raw_tensors(path, dict(tensors_of(state_dict))), state_dict),
            read.metadata,
            tuple(filter(None, (*read.warnings, *remarks))),
            candidates=tuple(map(name_of, states)),
            state_dict=name_of(root),
            root=root,
            surroundings=surroundings,
            foreign=opened.foreign,
            module_classes=(
                state_dict.module_classes if isinstance(state_dict, ModuleState) else {}
            ),
        )

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor, dense or special as in the file, detached from its gradient."""
        self.source.check()
        tensor = self.state.get(key)
        if not isinstance(tensor, torch.Tensor):
            raise CheckpointError("{file} has no tensor {key!r}.", file=self.path.name, key=key)
        return self.values_of(tensor).detach().resolve_conj().resolve_neg()

    def view_key_span(self, key: str, start: int, stop: int) -> torch.Tensor:
        tensor = self.state.get(key)
        if (
            self._unread is None
            or not isinstance(tensor, torch.Tensor)
            or not tensor.is_contiguous()
        ):
            return super().view_key_span(key, start, stop)
        self.source.check()
        with _explained(self.path.name):
            values = self._unread.read(tensor, start, stop)
        return values.detach().resolve_conj().resolve_neg()

    def values_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a strided tensor of `content` with its values: itself if the file is local."""
        if self._unread is None:
            return tensor
        with _explained(self.path.name):
            return self._unread.read(tensor)

    def missing_nbytes_of_keys(self, keys: Sequence[str]) -> int:
        if self._unread is None:
            return super().missing_nbytes_of_keys(keys)
        tensors = (self.state[key] for key in keys)
        with _explained(self.path.name):
            spans = [self._unread.span(each) for each in tensors if isinstance(each, torch.Tensor)]
        return self.source.missing_nbytes(filter(None, spans))

    def state_code(self, loaded: str) -> str:
        if isinstance(self.content, torch.Tensor):
            return f"{{{BARE_TENSOR!r}: {loaded}}}"
        code = super().state_code(loaded)
        is_list = isinstance(self.state, Numbered)
        return f"{{str(i): t for i, t in enumerate({code})}}" if is_list else code

    @property
    def other_objects(self) -> tuple[str, ...]:
        """The names of objects around the state dict, and of those in it that are no tensors."""
        names: list[object] = []
        value = self.content
        for key in self.root:
            if not isinstance(value, dict):
                break
            names += [other for other in value if other != key]
            value = value[key]
        names += [key for key, value in self.state.items() if not isinstance(value, torch.Tensor)]
        return tuple(dict.fromkeys(map(str, names)))

    def nbytes_outside(self) -> int:
        """Return the bytes of all other storages: optimizer states, special tensors and so on."""
        dense = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for key, tensor in tensors_of(self.state)
            if self.raw[key].special is None and self.raw[key].shares is None
        }
        return max(0, self._nbytes - sum(dense.values()))

    @property
    def loads_without_code(self) -> bool:
        return self._is_plain and not self.foreign

    def has_moments(self) -> bool:
        return has_moments(self.content)

    def close(self) -> None:
        super().close()
        self.content = self.state = {}
        if self._unread is not None:
            self._unread.forget_pages()


def _remarks(root: Root, states: Mapping[Root, State], hidden: int) -> Iterator[str]:
    others = [other for other in states if other != root]
    if others:
        yield tr(
            "This is the state dict {name}. Other tensors are kept unchanged, but not shown: in "
            "{others}. To open another state dict, use --state or File > State dict.",
            name=_quoted_name(root),
            others=listed(others, _quoted_name, MAX_LISTED),
        )
    if hidden:
        yield trn(
            "{count:,} tensor that is in no state dict is kept unchanged, but not shown.",
            "{count:,} tensors that are in no state dict are kept unchanged, but not shown.",
            hidden,
        )


def _quoted_name(root: Root) -> str:
    name = one_line(name_of(root), 80)
    return repr(name) if root else tr("{name!r} (the top level)", name=name)


def _raw_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> dict[str, RawTensor]:
    states: dict[str, RawTensor] = {}
    views: dict[Hashable, str] = {}
    for key, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in ELEMENT_BITS:
            raise CheckpointError(
                "{file}: {key!r} has the dtype {dtype}, which is not supported. Save it with "
                "another dtype.",
                file=path.name,
                key=key[:80],
                dtype=dtype,
            )
        if valid_text(key) != key:
            raise CheckpointError(
                "{file}: the name {key!r} is not valid text. Save it under another name.",
                file=path.name,
                key=key[:80],
            )
        special = _special(tensor)
        view = _view(tensor) if special is None else None
        if tensor.layout == torch.strided and special in (None, REPEATED_VIEW) and tensor.numel():
            views.setdefault(view or key, key)
        states[key] = RawTensor(tuple(tensor.shape), dtype, view, special)
    owners = overlapping({key: tensors[key] for key in views.values()})
    if owners:
        for key, raw in states.items():
            states[key] = raw._replace(shares=owners.get(views.get(raw.view or key, key)))
    return states


def _with_buffers(raw: dict[str, RawTensor], state: State) -> dict[str, RawTensor]:
    """Return the tensors of a state dict with the buffers marked, if it is that of a module."""
    trained = {key for key, value in state.items() if isinstance(value, torch.nn.Parameter)}
    if not isinstance(state, ModuleState) or not trained:
        return raw
    return {key: one._replace(is_buffer=key not in trained) for key, one in raw.items()}


def _special(tensor: torch.Tensor) -> str | None:
    """Return why a tensor is not plain and dense; see `TensorInfo.special`."""
    if tensor.is_quantized:
        return deferred("quantized")
    if tensor.is_nested or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return deferred("tensor subclass")
    if tensor.layout != torch.strided:
        return deferred("sparse")
    if tensor.is_meta:
        return deferred("without values")
    if tensor.numel() * tensor.itemsize > tensor.untyped_storage().nbytes():
        return REPEATED_VIEW
    return None


def _view(tensor: torch.Tensor) -> Hashable:
    """Return a value that is equal only for tensors with the same elements in the same memory."""
    if tensor.numel() == 0:
        return None
    return (
        tensor.data_ptr(),
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.is_conj(),
        tensor.is_neg(),
    )


ZIP_MAGIC: Final = b"PK"
MAX_PICKLE_BYTES: Final = 1 << 29
MAX_METADATA_BYTES: Final = 1 << 26
LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL: Final = 1001
"""The first two numbers of a legacy torch file, one pickle each."""
LEGACY_PICKLES: Final = 5
"""These two, the system information, the saved object, and the keys of the storages after it."""


class _Read(NamedTuple):
    """What reading a file found; the names in the pickle are those of all pickles of the file."""

    pickle: Unpickled
    storages: FileStorages
    root: Root | None = None  # of the state dict, if this program wrote the file
    metadata: Mapping[str, str] = MappingProxyType({})
    warnings: tuple[str, ...] = ()


def _read(source: Source, *, values: bool) -> _Read:
    """Read a torch file; refuse other pickles."""
    name = source.path.name
    source.file.seek(0)
    with _explained(name):
        try:
            if source.file.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
                return _read_legacy(source)
            if not source.maps_neighbours:
                with suppress(ValuesNeededError):
                    return _read_zip(source, late=True)
            return _read_zip(source, values=values)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
            raise damaged_zip_error(name, error) from error


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Convert a false claim of the file `name` to its refusal."""
    try:
        yield
    except FalseClaimError as problem:
        refusal = tr(
            "{name} cannot be opened: {problem}. Download the file again, or save it again "
            "with torch.save.",
            name=name,
            problem=one_line(tr(problem.claim), 300),
        )
        names = runs_programs(problem.foreign)
        raise CheckpointError(with_code_statement(refusal, names)) from None


def _read_zip(source: Source, *, values: bool = True, late: bool = False) -> _Read:
    path = source.path
    layout = TorchLayout(source.file, source.size, source.read_at if late else None)
    if SCRIPT_RECORD in layout.records:
        raise CheckpointError(
            "{name} is a TorchScript program, not a checkpoint. Loading it with torch makes "
            "its code run. If you trust its author, load it in the environment it came from, "
            "and save its `state_dict()` with torch.save.",
            name=path.name,
        )
    if PICKLE_RECORD not in layout.records:
        raise CheckpointError(
            "{name} is a zip archive, but not one that torch.save wrote. If a checkpoint is in "
            "it, unpack it first.",
            name=path.name,
        )
    if VERSION_RECORD not in layout.records:
        raise FalseClaimError("its archive has no format version")
    if layout.records[PICKLE_RECORD].nbytes > MAX_PICKLE_BYTES:
        raise FalseClaimError("its pickle is too large")
    swapped = _byte_order(layout) != sys.byteorder
    storages = (
        UnreadStorages(source, layout, swapped=swapped)
        if late
        else ZipStorages(source, layout, swapped=swapped, values=values)
    )
    # No file needs more opcodes than it has bytes, except a small one that is compressed.
    max_opcodes = min(MAX_OPCODES, MIN_OPCODES + source.size)
    opened = unpickle(io.BytesIO(layout.read(PICKLE_RECORD)), storages, max_opcodes)
    if not late:
        layout.check_small_records()
    _finish(opened, storages)
    return _Read(opened, storages, *_own_record(layout))


def _byte_order(layout: TorchLayout) -> str:
    """Return "little" or "big"; archives without a record of it are little-endian, as in torch."""
    record = layout.records.get(BYTE_ORDER)
    if record is None:
        return "little"
    order = layout.read(BYTE_ORDER).decode("latin-1") if record.nbytes < len("little") + 1 else ""
    if order not in ("little", "big"):
        raise FalseClaimError("its byte order is unknown")
    return order


def _finish(opened: Unpickled, storages: FileStorages) -> None:
    try:
        storages.fill()
    except FalseClaimError as problem:
        problem.foreign = opened.foreign
        raise
    opened.finish()


def _own_record(layout: TorchLayout) -> tuple[Root | None, dict[str, str], tuple[str, ...]]:
    """Return the root and metadata that this program wrote, or a warning if they are invalid."""
    record = layout.records.get(METADATA_RECORD)
    if record is None:
        return None, {}, ()
    try:
        if record.nbytes <= MAX_METADATA_BYTES:
            match json.loads(layout.read(METADATA_RECORD)):
                case {"root": list() as root, "metadata": dict() as metadata} if all(
                    isinstance(key, str | int) for key in root
                ) and all(isinstance(text, str) for text in metadata.values()):
                    return tuple(root), metadata, ()
    except (ValueError, RecursionError):
        pass
    remark = tr("Its record {name} is invalid and is ignored.", name=METADATA_RECORD)
    return None, {}, (remark,)


def _read_legacy(source: Source) -> _Read:
    source.file.seek(0)
    storages = LegacyStorages(source)
    magic = unpickle(source.file, storages)
    if magic.value != LEGACY_MAGIC:
        refusal = tr(
            "{name} is a Python pickle that torch.save did not write. If you trust the author "
            "of the file, load it in the environment it came from, and save the state dict "
            "with torch.save.",
            name=source.path.name,
        )
        raise CheckpointError(with_code_statement(refusal, runs_programs(magic.foreign)))
    pickles = [magic, *(unpickle(source.file, storages) for _ in range(LEGACY_PICKLES - 1))]
    _, protocol, _, opened, keys = pickles
    # torch.load executes all of the pickles, so the names in all of them count.
    foreign = tuple(dict.fromkeys(name for each in pickles for name in each.foreign))
    if protocol.value != LEGACY_PROTOCOL:
        problem = FalseClaimError("its format version is not supported")
        problem.foreign = foreign
        raise problem
    storages.order = keys.value if isinstance(keys.value, list) else []
    _finish(opened, storages)
    is_plain = all(each.is_plain for each in pickles)
    return _Read(replace(opened, foreign=foreign, is_plain=is_plain), storages)
