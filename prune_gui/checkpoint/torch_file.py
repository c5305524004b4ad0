"""Reading what torch.save wrote, without ever running code from it."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Hashable
from pathlib import Path
from typing import Final, Literal

import psutil
import torch

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.nest import Root, largest, state_dicts, tensors_of
from prune_gui.checkpoint.parameters import RawTensor
from prune_gui.checkpoint.tensor_info import ENTRY_BITS
from prune_gui.checkpoint.torch_layout import Layout, inspect_layout
from prune_gui.errors import CheckpointError

HOW_TO_CONVERT: Final = (
    "If you trust where it came from, save its weights alone there: "
    "`import torch; whole = torch.load(path, weights_only=False); "
    "torch.save(whole['state_dict'] if isinstance(whole, dict) else whole.state_dict(), 'new.pt')`."
)


class TorchCheckpoint(Checkpoint):
    """A file that torch.save wrote, zip or legacy.

    An archive that is stored uncompressed is mapped privately, so that nothing is loaded before it
    is looked at and no write reaches the file; everything else is loaded into memory at once.

    Attributes:
        root: the keys that lead from the top of the file to the state dict.
        nest: everything in the file, with the state dict at `root`.
        state: the state dict.
    """

    format: Literal["torch"] = "torch"

    def __init__(self, path: Path) -> None:
        layout = inspect_layout(path)
        self.nest = _load(path, layout)
        found = state_dicts(self.nest)
        if not found:
            raise CheckpointError(_no_state_dict(path, self.nest))
        self.root: Root = layout.root if layout.root in found else largest(found)
        self.state = found[self.root]
        raw = {key: _raw(tensor, key, path) for key, tensor in tensors_of(self.state)}
        others = [root for root in found if root != self.root]
        super().__init__(path, raw, layout.metadata, (*layout.warnings, *_about_others(others)))
        self._closed = False

    def read_key(self, key: str) -> torch.Tensor:
        """Return a tensor, dense or special as the file has it, without gradient."""
        if self._closed:
            raise CheckpointError(f"{self.path.name} is closed. Open it again.")
        tensor = self.state.get(key)
        if not isinstance(tensor, torch.Tensor):
            raise CheckpointError(f"{self.path.name} has no tensor {key!r}.")
        return tensor.detach().resolve_conj().resolve_neg()

    def close(self) -> None:
        """Let go of all tensors; those that were read stay valid."""
        self._closed = True
        self.nest = self.state = {}


def _load(path: Path, layout: Layout) -> object:
    """Unpickle with torch's restricted unpickler: tensors and plain containers only."""
    if not layout.mappable and layout.nbytes > psutil.virtual_memory().available:
        raise CheckpointError(
            f"{path.name} can only be loaded at once, and its {layout.nbytes:,} bytes do not fit "
            "into the free memory. Save it again with torch.save of a recent torch."
        )
    try:
        with warnings.catch_warnings():
            # Notes of torch to programmers, about storage types and file formats of old files.
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=layout.mappable)
    except pickle.UnpicklingError as error:
        raise CheckpointError(_refusal(path, str(error))) from error
    except OSError:
        raise
    except MemoryError as error:
        raise CheckpointError(f"{path.name} does not fit into memory.") from error
    except Exception as error:  # torch raises whatever a damaged file leads it to
        raise CheckpointError(
            f"{path.name} is damaged: torch cannot load it ({_first_line(error)}). "
            "Get the file again."
        ) from error


def _refusal(path: Path, message: str) -> str:
    unknown = re.search(r"GLOBAL (\S+)", message)
    if unknown is None:
        return (
            f"{path.name} is not plain weights, and is not opened, because unpickling it could run "
            f"code. {HOW_TO_CONVERT}"
        )
    return (
        f"{path.name} needs the code of {unknown[1]} to open, and code from a file is never run. "
        f"{HOW_TO_CONVERT}"
    )


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


def _about_others(roots: list[Root]) -> list[str]:
    if not roots:
        return []
    shown = ", ".join(repr(".".join(root)) if root else "the top level" for root in roots[:5])
    more = f" and {len(roots) - 5} more" if len(roots) > 5 else ""
    return [f"Tensors beside the state dict are kept as they are, not shown: in {shown}{more}."]


def _raw(tensor: torch.Tensor, key: str, path: Path) -> RawTensor:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in ENTRY_BITS:
        raise CheckpointError(
            f"{path.name}: {key!r} has the dtype {dtype}, which is not supported."
        )
    special = _special(tensor)
    return RawTensor(
        tuple(tensor.shape), dtype, _view(tensor) if special is None else None, special
    )


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
        return "repeated view"
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
