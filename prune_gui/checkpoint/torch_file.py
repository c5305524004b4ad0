"""Reading what torch.save wrote, without ever running code from it."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import torch

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.conversion import needs_code
from prune_gui.checkpoint.nest import Root, State, largest, name_of, state_dicts, tensors_of
from prune_gui.checkpoint.overlaps import overlapping
from prune_gui.checkpoint.parameters import RawTensor
from prune_gui.checkpoint.pickle_scan import Scan
from prune_gui.checkpoint.source import Source
from prune_gui.checkpoint.tensor_info import ENTRY_BITS
from prune_gui.checkpoint.torch_layout import Layout, inspect_layout
from prune_gui.errors import CheckpointError, one_line
from prune_gui.memory import shortage
from prune_gui.monitor import Monitor

NAMED_AT_MOST: Final = 5
REPEATED: Final = "repeated view"


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
                    f"{path.name} has no state dict {state!r}. Choose one of {_listed(found)}."
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
            raise CheckpointError(f"{self.path.name} has no tensor {key!r}.")
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
            f"{path.name} cannot be read piece by piece, and loading it takes {lack}. Save it "
            "again with torch.save of a recent torch, or close other programs."
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
            f"{path} has a name that is no valid text, which torch cannot use. Rename it."
        ) from error
    except MemoryError as error:
        raise CheckpointError(
            f"{path.name} does not fit into memory. Close other programs, or open it on a larger "
            "machine."
        ) from error
    except Exception as error:  # torch raises whatever a damaged file leads it to
        raise CheckpointError(
            f"{path.name} is damaged: torch cannot load it ({_first_line(error)}). "
            "Get the file again."
        ) from error


def _refusal(path: Path, message: str) -> CheckpointError:
    """Refuse what torch does; its message may name what it does not know."""
    unknown = re.search(r"GLOBAL (\S+)", message)
    names = (unknown[1],) if unknown else ()
    return needs_code(path, Scan(None, names, protocol=2, readable=True, copied=0))


def _no_state_dict(path: Path, nest: object) -> str:
    if isinstance(nest, torch.Tensor):
        return (
            f"{path.name} holds a single tensor without a name. Save it in a dictionary: "
            "`torch.save({'weight': tensor}, path)`."
        )
    return (
        f"{path.name} holds no state dict: no dictionary in it maps names to tensors "
        "(an optimizer's state does not count). Save `model.state_dict()`."
    )


def _remarks(root: Root, found: Mapping[Root, State]) -> Iterator[str]:
    others = [other for other in found if other != root]
    if others:
        yield (
            f"This is the state dict {_named(root)}. Tensors beside it are kept as they are, not "
            f"shown: in {_listed(others)}. Choose one of them by its name: --state, or File > "
            "State dict."
        )
    nameless = sum(
        isinstance(value, torch.Tensor) and not isinstance(key, str)
        for key, value in found[root].items()
    )
    if nameless:
        yield f"{nameless:,} tensors whose keys are not text are kept as they are, not shown."


def _named(root: Root) -> str:
    return repr(one_line(name_of(root), 80)) + ("" if root else " (the top level)")


def _listed(roots: Iterable[Root]) -> str:
    names = [_named(root) for root in roots]
    more = len(names) - NAMED_AT_MOST
    return ", ".join(names[:NAMED_AT_MOST]) + (f" and {more:,} more" if more > 0 else "")


def _raw(path: Path, tensors: Mapping[str, torch.Tensor]) -> dict[str, RawTensor]:
    found: dict[str, RawTensor] = {}
    views: dict[Hashable, str] = {}
    for key, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in ENTRY_BITS:
            raise CheckpointError(
                f"{path.name}: {key[:80]!r} has the dtype {dtype}, which is not supported. Save it "
                "in another one."
            )
        if not _is_text(key):
            raise CheckpointError(
                f"{path.name}: the name {key[:80]!r} is not valid text. Save it under another one."
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
        return "quantized"
    if tensor.is_nested or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return "tensor subclass"
    if tensor.layout != torch.strided:
        return "sparse"
    if tensor.is_meta:
        return "without values"
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
