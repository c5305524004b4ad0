"""Reading what torch.save wrote, without ever running code from it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import torch

from prune_gui.checkpoint.parameters import RawTensor
from prune_gui.checkpoint.sharded.index import listed
from prune_gui.checkpoint.single_file import FileCheckpoint
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import ENTRY_BITS
from prune_gui.checkpoint.torch.overlaps import overlapping
from prune_gui.checkpoint.torch.reading import read_torch_file
from prune_gui.checkpoint.torch.state_dict_search import (
    Root,
    State,
    largest,
    name_of,
    state_dicts,
    tensors_of,
)
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import later, tr, trn

NAMED_AT_MOST: Final = 5
REPEATED: Final = later("repeated view")


class TorchCheckpoint(FileCheckpoint):
    """A file that torch.save wrote, zip or legacy.

    Records of an archive that are stored uncompressed are mapped privately, so that nothing is
    loaded before it is looked at and no write reaches the file; everything else is loaded into
    memory at once.

    Attributes:
        nest: everything in the file, with the state dict at `root`.
        state: the state dict.
    """

    format: Literal["torch"] = "torch"

    def __init__(self, source: Source, state: str | None = None) -> None:
        """Open the state dict of that name (see `candidates`), or the largest."""
        self.source = source
        opened = read_torch_file(source)
        path = source.path
        self.nest = opened.nest
        self._nbytes = opened.nbytes
        found = state_dicts(self.nest)
        if not found:
            raise CheckpointError(_no_state_dict(path, self.nest))
        self.root = opened.root if opened.root in found else largest(found)
        names = {name_of(root): root for root in reversed(found)}
        if state is not None:
            if state not in names:
                raise CheckpointError(
                    tr(
                        "{file} has no state dict {name!r}. Choose one of {names}.",
                        file=path.name,
                        name=state,
                        names=listed(list(found), _named, NAMED_AT_MOST),
                    )
                )
            self.root = names[state]
        self.state = found[self.root]
        raw = _raw(path, dict(tensors_of(self.state)))
        super().__init__(
            path, raw, opened.metadata, (*opened.warnings, *_remarks(self.root, found))
        )
        self.candidates = tuple(map(name_of, found))
        self.state_dict = name_of(self.root)

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor, dense or special as the file has it, without gradient."""
        self.source.check()
        tensor = self.state.get(key)
        if not isinstance(tensor, torch.Tensor):
            raise CheckpointError(tr("{file} has no tensor {key!r}.", file=self.path.name, key=key))
        return tensor.detach().resolve_conj().resolve_neg()

    def nbytes_beside(self) -> int:
        """Return the bytes of optimizer states, special tensors and the like, as they are kept."""
        dense = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for key, tensor in tensors_of(self.state)
            if self.raw[key].special is None and self.raw[key].shares is None
        }
        return max(0, self._nbytes - sum(dense.values()))

    def close(self) -> None:
        """Let go of all tensors; those that were read stay valid."""
        super().close()
        self.nest = self.state = {}


def _no_state_dict(path: Path, nest: object) -> str:
    if isinstance(nest, torch.Tensor):
        return tr(
            "{name} holds a single tensor without a name. Save it in a dictionary: `{code}`.",
            name=path.name,
            code="torch.save({'weight': tensor}, path)",
        )
    return tr(
        "{name} holds no state dict: no dictionary in it maps names to tensors "
        "(an optimizer's state does not count). Save `model.state_dict()`.",
        name=path.name,
    )


def _remarks(root: Root, found: Mapping[Root, State]) -> Iterator[str]:
    others = [other for other in found if other != root]
    if others:
        yield tr(
            "This is the state dict {name}. Tensors beside it are kept as they are, not shown: in "
            "{others}. Choose one of them by its name: --state, or File > State dict.",
            name=_named(root),
            others=listed(others, _named, NAMED_AT_MOST),
        )
    nameless = sum(
        isinstance(value, torch.Tensor) and not isinstance(key, str)
        for key, value in found[root].items()
    )
    if nameless:
        yield trn(
            "{count:,} tensor whose key is not text is kept as it is, not shown.",
            "{count:,} tensors whose keys are not text are kept as they are, not shown.",
            nameless,
        )


def _named(root: Root) -> str:
    name = one_line(name_of(root), 80)
    return repr(name) if root else tr("{name!r} (the top level)", name=name)


def _raw(path: Path, tensors: Mapping[str, torch.Tensor]) -> dict[str, RawTensor]:
    found: dict[str, RawTensor] = {}
    views: dict[Hashable, str] = {}
    for key, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in ENTRY_BITS:
            raise CheckpointError(
                tr(
                    "{file}: {key!r} has the dtype {dtype}, which is not supported. Save it in "
                    "another one.",
                    file=path.name,
                    key=key[:80],
                    dtype=dtype,
                )
            )
        if not _is_text(key):
            raise CheckpointError(
                tr(
                    "{file}: the name {key!r} is not valid text. Save it under another one.",
                    file=path.name,
                    key=key[:80],
                )
            )
        special = _special(tensor)
        view = _view(tensor) if special is None else None
        if tensor.layout == torch.strided and special in (None, REPEATED) and tensor.numel():
            views.setdefault(view or key, key)
        found[key] = RawTensor(tuple(tensor.shape), dtype, view, special)
    owners = overlapping({key: tensors[key] for key in views.values()})
    if owners:
        for key, raw in found.items():
            found[key] = raw._replace(shares=owners.get(views.get(raw.view or key, key)))
    return found


def _is_text(key: str) -> bool:
    """Tell whether a name can be written: lone surrogates cannot."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _special(tensor: torch.Tensor) -> str | None:
    """Return why the values are not plain dense entries; see `TensorInfo.special`."""
    if tensor.is_quantized:
        return later("quantized")
    if tensor.is_nested or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return later("tensor subclass")
    if tensor.layout != torch.strided:
        return later("sparse")
    if tensor.is_meta:
        return later("without values")
    if tensor.numel() * tensor.itemsize > tensor.untyped_storage().nbytes():
        return REPEATED
    return None


def _view(tensor: torch.Tensor) -> Hashable:
    """Return what only another tensor with the same entries in the same memory has too."""
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
