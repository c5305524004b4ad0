"""What a test finds in the files that it wrote."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder and its subfolders by relative path."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def tensors_in(out: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file, or of all of a folder."""
    files = out.glob("*.safetensors") if out.is_dir() else [out]
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def size_of(out: Path) -> int:
    """Return the size in bytes of a file, or of the shards of a folder and their index."""
    files = [path for path in out.iterdir() if path.suffix != ".py"] if out.is_dir() else [out]
    return sum(path.stat().st_size for path in files)
