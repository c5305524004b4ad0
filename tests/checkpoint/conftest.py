"""Fixtures that create and write small checkpoints."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from floats import ORDERED

from prune_gui.checkpoint import Checkpoint, TensorWriter

DTYPES = (
    *ORDERED,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)


@pytest.fixture
def every_dtype() -> dict[str, torch.Tensor]:
    tensors = {
        str(dtype).removeprefix("torch."): (torch.rand(3, 5) * 9).to(dtype) for dtype in DTYPES
    }
    return tensors | {"empty": torch.zeros(0, 4), "scalar": torch.tensor(1.5)}


@pytest.fixture
def unchanged() -> Callable[[Checkpoint], list[TensorWriter]]:
    def entries(checkpoint: Checkpoint) -> list[TensorWriter]:
        return [
            entry(checkpoint, key)
            for info in checkpoint.tensors.values()
            if info.special is None
            for key in info.pair or (info.name,)
        ]

    def entry(checkpoint: Checkpoint, key: str) -> TensorWriter:
        def chunks() -> Iterator[torch.Tensor]:
            flat = checkpoint.read_key(key).reshape(-1)
            yield from flat.split(max(7, flat.numel() // 3))

        raw = checkpoint.raw[key]
        return TensorWriter(key, raw.dtype, raw.shape, chunks)

    return entries


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[object], Path]:
    def save(content: object, name: str = "model.pt", **options: object) -> Path:
        path = tmp_path / name
        torch.save(content, path, **options)
        return path

    return save
