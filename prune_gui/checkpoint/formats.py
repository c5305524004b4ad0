"""Telling files by their first bytes: those that open, and those that end up in their place."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

from prune_gui.language import later, tr

START: Final = 512
"""Bytes that are enough to tell."""

OTHER_FORMATS: Final = {
    b"version https://git-lfs": later(
        "{name} is a Git LFS pointer, not the weights. Run `git lfs pull`."
    ),
    b"GGUF": later("{name} is a GGUF file. Convert it to safetensors first."),
    b"\x89HDF": later("{name} is an HDF5 (Keras) file. Convert it to safetensors first."),
    b"\x93NUMPY": later("{name} is a NumPy array. Save it with safetensors.numpy.save_file first."),
    b"\x1f\x8b": later("{name} is a gzip archive. Unpack it first."),
    b"7z\xbc\xaf\x27\x1c": later("{name} is a 7z archive. Unpack it first."),
    b"BZh": later("{name} is a bzip2 archive. Unpack it first."),
    b"\xfd7zXZ": later("{name} is an xz archive. Unpack it first."),
    b"\x28\xb5\x2f\xfd": later("{name} is a zstd archive. Unpack it first."),
    b"Rar!": later("{name} is a RAR archive. Unpack it first."),
}
"""How other files start, and what to do about them."""

LATER: Final = {
    (257, b"ustar"): later("{name} is a tar archive. Unpack it first."),
    (4, b"TFL3"): later(
        "{name} is a TensorFlow Lite model. Save the weights with the program that made it."
    ),
}
"""The same for formats that show it further on: at a byte, by some bytes."""
ONNX: Final = b"\x08"
"""The field of a protocol buffer that every ONNX model starts with."""
PAGES: Final = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")
TEXT_PICKLES: Final = b"(]}cLl"
"""How pickles of protocol 0 and 1 start; they end with a dot."""
TEXT_MAGIC: Final = b"L119547037146038801333356L\n"
"""How legacy torch files of these protocols start; they end with the values."""


def is_safetensors(start: bytes) -> bool:
    """Tell a header that begins as JSON after a sensible length."""
    return start[8:9] == b"{" and start[5:8] == bytes(3)


def is_zip(start: bytes) -> bool:
    """Tell a zip archive, even an empty one."""
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def is_pickle(start: bytes, file: BinaryIO) -> bool:
    """Tell a pickle of any protocol, without reading it."""
    if start[:1] == b"\x80":
        return start[1:2] <= b"\x05"
    if not start or start[0] not in TEXT_PICKLES:
        return False
    file.seek(-1, 2)
    return start.startswith(TEXT_MAGIC) or file.read(1) == b"."


def explanation(path: Path, start: bytes) -> str:
    """Return what a file is that is no checkpoint, and what to do; "" if nobody knows."""
    explained = _explanation(path, start)
    return tr(explained, name=path.name) if explained else ""


def _explanation(path: Path, start: bytes) -> str:
    """Return what `explanation` does, for `tr` to fill in the name."""
    if not start.strip(b"\0"):
        return later(
            "{name} is nothing but zeros (a download or a disk that broke off). Get the file again."
        )
    for magic, explained in OTHER_FORMATS.items():
        if start.startswith(magic):
            return explained
    for (place, magic), explained in LATER.items():
        if start.startswith(magic, place):
            return explained
    if start.startswith(ONNX) and (path.suffix.lower() == ".onnx" or b"torch" in start[:64]):
        return later("{name} is an ONNX model. Save the weights with the program that made it.")
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(PAGES):
        return later(
            "{name} is a web page or what a server answered, not the weights. "
            "Download the file again."
        )
    if text.startswith(b"{"):
        return later("{name} is a JSON text, not the weights. Open the checkpoint file beside it.")
    return ""
