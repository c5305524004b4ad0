"""Opening a checkpoint of any known format."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from prune_gui.checkpoint.base import Checkpoint
from prune_gui.errors import CheckpointError

SUFFIXES: Final = {
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".bin": "torch",
    ".ckpt": "torch",
}
KNOWN_SUFFIXES: Final = ", ".join(SUFFIXES)

OTHER_FORMATS: Final = {
    b"version https://git-lfs": "a Git LFS pointer, not the weights. Run `git lfs pull`.",
    b"GGUF": "a GGUF file. Convert it to safetensors first.",
    b"\x89HDF": "an HDF5 (Keras) file. Convert it to safetensors first.",
    b"\x93NUMPY": "a NumPy array. Save it with safetensors.numpy.save_file first.",
    b"\x1f\x8b": "a gzip archive. Unpack it first.",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive. Unpack it first.",
    b"BZh": "a bzip2 archive. Unpack it first.",
    b"\xfd7zXZ": "an xz archive. Unpack it first.",
}
"""How other files start that end up in the place of a checkpoint, and what to do about them."""

START: Final = 512


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Open a checkpoint by what it holds, whatever its suffix.

    Reads headers only; no weight is touched. safetensors files need no torch for this.

    Raises:
        CheckpointError: the file cannot be read, is of no known format, breaks a rule of its
            format, or would need to run code.
    """
    path = Path(path)
    if "\0" in str(path):
        raise CheckpointError(f"{str(path)!r} is not a path.")
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise CheckpointError(f"{path} is a folder. Open a checkpoint file inside it.")
        if not stat.S_ISREG(status.st_mode):
            raise CheckpointError(f"{path} is not a file.")
        with path.open("rb") as file:
            start = file.read(START)
        return _open(path, start)
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist.") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from error


def _open(path: Path, start: bytes) -> Checkpoint:
    expected = SUFFIXES.get(path.suffix.lower())
    if not start:
        raise CheckpointError(f"{path.name} is empty. Get the file again.")
    if start[8:9] == b"{" and start[5:8] == bytes(3):
        return _safetensors(path)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")) or _is_pickle(start):
        if expected == "safetensors":  # torch would believe the suffix
            raise CheckpointError(
                f"{path.name} is a torch checkpoint, not a safetensors file. "
                "Rename it to end in .pt."
            )
        from prune_gui.checkpoint.torch_file import TorchCheckpoint

        return TorchCheckpoint(path)
    for magic, explanation in OTHER_FORMATS.items():
        if start.startswith(magic):
            raise CheckpointError(f"{path.name} is {explanation}")
    text = start.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise CheckpointError(
            f"{path.name} is a web page, not the weights. Download the file itself again."
        )
    if expected == "safetensors":
        return _safetensors(path)
    if text.startswith(b"{"):
        raise CheckpointError(
            f"{path.name} is a JSON text, not the weights. Open the checkpoint file beside it."
        )
    if expected == "torch":
        raise CheckpointError(
            f"{path.name} is not a checkpoint that torch.save wrote. Get the file again."
        )
    raise CheckpointError(f"{path.name} is not a checkpoint of a known format ({KNOWN_SUFFIXES}).")


def _safetensors(path: Path) -> Checkpoint:
    from prune_gui.checkpoint.safetensors_file import SafetensorsCheckpoint

    return SafetensorsCheckpoint(path)


def _is_pickle(start: bytes) -> bool:
    """Tell a pickle of protocol 2 to 5, the only ones that torch wrote or writes."""
    return start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
