"""Checkpoints that torch.save wrote, read without running code from them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from prune_gui.checkpoint.base import NO_SURROUNDINGS, FileCheckpoint, Surroundings
from prune_gui.checkpoint.named_code import code_statement, with_code_statement
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import ELEMENT_BITS, RawTensor
from prune_gui.checkpoint.torch.reading import claim_error, read_torch_file
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
from prune_gui.checkpoint.torch.tensor_spans import overlapping
from prune_gui.errors import CheckpointError, one_line
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
        state: the state dict.
        file: what reading the file found, without its content.
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
        """Open the state dict with the name `state` (see `candidates`), or the largest one.

        Without `values`, those that cannot be mapped are not read.
        """
        self.source = source
        opened = read_torch_file(source, values=values)
        path = source.path
        self.content = opened.content
        self.file = replace(opened, content=None)
        self._nbytes = opened.nbytes
        try:
            states = state_dicts(self.content)
        except FalseClaimError as problem:
            raise claim_error(path.name, problem) from None
        if not states:
            reason = tr(
                "{name} holds no state dict: no module, list, or dictionary with names in it has "
                "tensors (an optimizer's state does not count). Save `model.state_dict()`.",
                name=path.name,
            )
            raise CheckpointError(with_code_statement(reason, opened.foreign))
        if opened.foreign:  # objects of a trainer hold tensors that are no weights
            states = with_weights(states)
        root = opened.root if opened.root in states else largest(states)
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
            opened.metadata,
            tuple(filter(None, (*opened.warnings, *remarks))),
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
        """Return a span of a flat tensor; see `Checkpoint.view_key_span`."""
        tensor = self.state.get(key)
        if (
            self.file.unread is None
            or not isinstance(tensor, torch.Tensor)
            or not tensor.is_contiguous()
        ):
            return super().view_key_span(key, start, stop)
        self.source.check()
        with self._explained():
            values = self.file.unread.read(tensor, start, stop)
        return values.detach().resolve_conj().resolve_neg()

    def values_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a strided tensor of `content` with its values: itself if the file is local."""
        if self.file.unread is None:
            return tensor
        with self._explained():
            return self.file.unread.read(tensor)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Convert a false claim of the file that appears late to a CheckpointError."""
        try:
            yield
        except FalseClaimError as problem:
            raise claim_error(self.path.name, problem) from None

    def missing_nbytes_of_keys(self, keys: Sequence[str]) -> int:
        """Return the bytes to fetch before these tensors can be read."""
        unread = self.file.unread
        if unread is None:
            return super().missing_nbytes_of_keys(keys)
        tensors = (self.state[key] for key in keys)
        with self._explained():
            spans = [unread.span(each) for each in tensors if isinstance(each, torch.Tensor)]
        return self.source.missing_nbytes(filter(None, spans))

    def state_code(self, loaded: str) -> str:
        """Return a Python expression for the state dict; see `Checkpoint.state_code`."""
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
        """Whether torch.load with weights_only=True reads it; see `Checkpoint`."""
        return self.file.is_plain and not self.foreign

    def has_moments(self) -> bool:
        """Return whether the file has an optimizer state with tensors."""
        return has_moments(self.content)

    def close(self) -> None:
        """Close the file and release all tensors; those that were read stay valid."""
        super().close()
        self.content = self.state = {}
        if self.file.unread is not None:
            self.file.unread.forget_pages()


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
        if not _is_text(key):
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


def _is_text(key: str) -> bool:
    """Return whether a name can be encoded as UTF-8; lone surrogates cannot."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


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
