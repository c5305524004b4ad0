"""Recognizing unsupported file formats by their first bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prune_gui.language import deferred, tr

OTHER_FORMATS: Final = {
    b"version https://git-lfs": deferred(
        "{name} is a Git LFS pointer, not the weights. Run `git lfs pull`."
    ),
    b"\x93NUMPY": deferred(
        "{name} is a single NumPy array. Save it with numpy.savez, which keeps names."
    ),
    b"\x1f\x8b": deferred("{name} is a gzip archive. Unpack it first."),
    b"7z\xbc\xaf\x27\x1c": deferred("{name} is a 7z archive. Unpack it first."),
    b"BZh": deferred("{name} is a bzip2 archive. Unpack it first."),
    b"\xfd7zXZ": deferred("{name} is an xz archive. Unpack it first."),
    b"\x28\xb5\x2f\xfd": deferred("{name} is a zstd archive. Unpack it first."),
    b"Rar!": deferred("{name} is a RAR archive. Unpack it first."),
}
"""First bytes of unsupported formats, and what the user can do."""

OTHER_FORMATS_AT_OFFSET: Final = {
    (257, b"ustar"): deferred("{name} is a tar archive. Unpack it first."),
    (4, b"TFL3"): deferred(
        "{name} is a TensorFlow Lite model. Save the weights with the program that made it."
    ),
}
"""The same for formats with their magic bytes at an offset, by (offset, magic bytes)."""
ONNX_FIELD: Final = b"\x08"
"""The tag of the protocol buffer field that every ONNX model starts with."""
WEB_PAGE_STARTS: Final = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<error")


def explanation(path: Path, start: bytes) -> str:
    """Return the format of an unsupported file and what the user can do; "" if it is unknown."""
    message = _explanation(path, start)
    return tr(message, name=path.name) if message else ""


def _explanation(path: Path, start: bytes) -> str:
    """Return the untranslated message of `explanation`."""
    if not start.strip(b"\0"):
        return deferred(
            "{name} contains only zero bytes (an interrupted download or a disk failure). Download "
            "the file again."
        )
    for magic, message in OTHER_FORMATS.items():
        if start.startswith(magic):
            return message
    for (offset, magic), message in OTHER_FORMATS_AT_OFFSET.items():
        if start.startswith(magic, offset):
            return message
    if start.startswith(ONNX_FIELD) and (path.suffix.lower() == ".onnx" or b"torch" in start[:64]):
        return deferred("{name} is an ONNX model. Save the weights with the program that made it.")
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(WEB_PAGE_STARTS):
        return deferred(
            "{name} is a web page or a response of a server, not the weights. Download the file "
            "again."
        )
    if text.startswith(b"{"):
        return deferred(
            "{name} is a JSON text, not the weights. Open the checkpoint file in the same folder."
        )
    return ""
