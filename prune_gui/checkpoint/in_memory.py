"""A checkpoint of tensors in memory, such as those of a model that is not saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.checkpoint.tensor_info import RawTensor
from prune_gui.monitor import Monitor

if TYPE_CHECKING:
    import torch


class InMemory(Checkpoint):
    """Tensors by name, which are not copied, so that changes of them show."""

    format = "torch"

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        raw = {
            name: RawTensor(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
            for name, tensor in tensors.items()
        }
        super().__init__(Path("in_memory.pt"), raw, {})
        self._tensors = tensors

    def read_key(self, key: str) -> torch.Tensor:
        return self._tensors[key]

    def missing_nbytes(self, names: Iterable[str]) -> int:
        return 0

    def fetch(self, monitor: Monitor) -> None:
        """Do nothing: the tensors are here."""

    def check(self) -> None:
        """Do nothing: tensors in memory are open."""

    def file_states(self) -> Mapping[str, tuple[int, int]]:
        return {}

    def fingerprint(self, monitor: Monitor) -> str:
        return "in memory"

    @property
    def model_files_folder(self) -> Path:
        return Path()

    def close(self) -> None:
        """Do nothing: the tensors belong to the caller."""
