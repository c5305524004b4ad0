"""Reading what torch.save wrote, without ever running code from it."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import torch

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.conversion import needs_code
from prune_gui.checkpoint.nest import Root, State, largest, name_of, state_dicts, tensors_of
from prune_gui.checkpoint.overlaps import overlapping
from prune_gui.checkpoint.parameters import RawTensor
from prune_gui.checkpoint.pickle_scan import Scan
from prune_gui.checkpoint.shard_index import listed
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import ENTRY_BITS
from prune_gui.checkpoint.torch_layout import Layout, inspect_layout
from prune_gui.errors import CheckpointError, one_line
from prune_gui.language import later, tr, trn
from prune_gui.memory import shortage
from prune_gui.monitor import Monitor

NAMED_AT_MOST: Final = 5
REPEATED: Final = later("repeated view")


class TorchCheckpoint(Checkpoint):
    """A file that torch.save wrote, zip or legacy.

    An archive that is stored uncompressed is mapped privately, so that nothing is loaded before it
    is looked at and no write reaches the file; everything else is loaded into memory at once.

    Attributes:
        nest: everything in the file, with the state dict at `root`.
        state: the state dict.
    """

    format: Literal["torch"] = "torch"

    def __init__(self, path: Path, state: str | None = None) -> None:
        """Open the state dict of that name (see `candidates`), or the largest."""
        layout = inspect_layout(path)
        self.source = Source(path)
        try:
            self._read(path, layout, state)
        except BaseException:
            self.source.close()
            raise

    def _read(self, path: Path, layout: Layout, state: str | None) -> None:
        self.nest = _load(path, layout)
        self._values = layout.values
        found = state_dicts(self.nest)
        if not found:
            raise CheckpointError(_no_state_dict(path, self.nest))
        self.root = layout.root if layout.root in found else largest(found)
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
            path, raw, layout.metadata, (*layout.warnings, *_remarks(self.root, found))
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
        return max(0, self._values - sum(dense.values()))

    def check(self) -> None:
        """Check that the file is as it was; see `Checkpoint.check`."""
        self.source.check()

    def fingerprint(self, monitor: Monitor) -> str:
        """Return "sha256:<hex>" of the file; see `Checkpoint.fingerprint`."""
        return self.source.fingerprint(monitor)

    def close(self) -> None:
        """Let go of all tensors; those that were read stay valid."""
        self.source.close()
        self.nest = self.state = {}


def _load(path: Path, layout: Layout) -> object:
    """Unpickle with torch's restricted unpickler: tensors and plain containers only."""
    lack = shortage(layout.nbytes)
    if lack is not None:
        raise CheckpointError(
            tr(
                "{name} cannot be read piece by piece, and loading it takes {lack}. Save it again "
                "with torch.save of a recent torch, or close other programs.",
                name=path.name,
                lack=lack,
            )
        )
    try:
        with warnings.catch_warnings():
            # Notes of torch to programmers, about storage types and file formats of old files.
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=layout.mappable)
    except pickle.UnpicklingError as error:
        raise _refusal(path, str(error)) from error
    except OSError:
        raise
    except UnicodeEncodeError as error:
        raise CheckpointError(
            tr(
                "{path} has a name that is no valid text, which torch cannot use. Rename it.",
                path=path,
            )
        ) from error
    except MemoryError as error:
        raise CheckpointError(
            tr(
                "{name} does not fit into memory. Close other programs, or open it on a larger "
                "machine.",
                name=path.name,
            )
        ) from error
    except Exception as error:  # torch raises whatever a damaged file leads it to
        raise CheckpointError(
            tr(
                "{name} is damaged: torch cannot load it ({reason}). Get the file again.",
                name=path.name,
                reason=_first_line(error),
            )
        ) from error


def _refusal(path: Path, message: str) -> CheckpointError:
    """Refuse what torch does; its message may name what it does not know."""
    unknown = re.search(r"GLOBAL (\S+)", message)
    names = (unknown[1],) if unknown else ()
    return needs_code(path, Scan(None, names, protocol=2, readable=True, copied=0))


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


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
