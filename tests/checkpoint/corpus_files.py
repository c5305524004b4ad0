"""Files that are not checkpoints: other formats, special files and invalid paths."""

import bz2
import gzip
import io
import lzma
import os
import random
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from corpus_forms import STATE, Bad, Harmless, file, octets_of, saved

HTML = b"<!DOCTYPE html><html><body>404: not found</body></html>"
XML = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>'
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"
ONNX = b"\x08\x08\x12\x07pytorch\x1a\x031.5:\x80\x01"
NOISE = random.Random(0).randbytes(5000)


def tar_bytes() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        record = tarfile.TarInfo("storages")
        record.size = 4
        archive.addfile(record, io.BytesIO(b"abcd"))
    return buffer.getvalue()


def npy_bytes() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(3))
    return buffer.getvalue()


CONTENTS = {
    "nothing": (b"", "is empty"),
    "lfs-pointer": (LFS, "git lfs pull"),
    "html": (HTML, "web page"),
    "html-after-spaces": (b"\n \xef\xbb\xbf <HTML>", "web page"),
    "xml-error": (XML, "a response of a server"),
    "numpy": (npy_bytes(), "NumPy array"),
    "onnx": (ONNX, "ONNX"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(99), "TensorFlow Lite"),
    "gzip": (gzip.compress(octets_of(STATE)), "gzip"),
    "bzip2": (bz2.compress(b"abc"), "bzip2"),
    "xz": (lzma.compress(b"abc"), "an xz archive"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(99), "zstd"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(99), "7z"),
    "rar": (b"Rar!\x1a\x07\0" + bytes(99), "RAR"),
    "tar": (tar_bytes(), "a tar archive"),
    "zeros": (bytes(5000), "only zero bytes"),
}


def folder_with_nothing(folder: Path) -> Path:
    (folder / "m.pt").mkdir()
    return folder / "m.pt"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "m.pt")
    return folder / "m.pt"


def bound_socket(folder: Path) -> Path:
    before = Path.cwd()
    os.chdir(folder)  # the path of a socket has to be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("m.pt")
    finally:
        os.chdir(before)
    return folder / "m.pt"


def link(target: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "m.pt").symlink_to(target)
        return folder / "m.pt"

    return make


FILES: dict[str, Bad | Harmless] = {
    **{
        f"{kind}-named-{name}": Bad(says, file(octets, name))
        for kind, (octets, says) in CONTENTS.items()
        for name in ("m.safetensors", "m.pt", "m.bin", "m.xyz")
    },
    "json": Bad("JSON", file(b'{"hidden_size": 384}', "config.json")),
    "json-named-safetensors": Bad("JSON", file(b' {"hidden_size": 384}', "m.safetensors")),
    "text": Bad("not a checkpoint of a known format", file(b"nothing in particular", "m.txt")),
    "text-named-pt": Bad("that torch.save wrote", file(b"nothing in particular")),
    "text-named-safetensors": Bad(
        "not a valid safetensors file", file(b"nothing in particular", "m.safetensors")
    ),
    "text-like-a-pickle": Bad("its pickle is damaged", file(b"lots of words, and a dot.")),
    "pickle-of-a-few-letters": Bad("a Python pickle", file(b"cat\ndog\n.")),
    "noise": Bad("that torch.save wrote", file(NOISE)),
    "noise-named-safetensors": Bad("declares", file(NOISE, "m.safetensors")),
    "one-byte": Bad("that torch.save wrote", file(b"a")),
    "one-zero": Bad("only zero bytes", file(b"\0")),
    "one-byte-of-a-pickle": Bad("its pickle is damaged", file(b"\x80")),
    "two-bytes-of-a-pickle": Bad("its pickle is damaged", file(b"\x80\x02")),
    "pickle-of-protocol-9": Bad("that torch.save wrote", file(b"\x80\x09.")),
    "nothing-pickled": Bad("a Python pickle", file(b"\x80\x02N.")),
    "folder": Bad("without a checkpoint", folder_with_nothing),
    "missing": Bad("does not exist", lambda folder: folder / "m.pt"),
    "missing-folder": Bad("does not exist", lambda folder: folder / "none" / "m.pt"),
    "below-a-file": Bad("cannot be read", lambda folder: file(b"x")(folder) / "m.pt"),
    "pipe": Bad("not a regular file", pipe),
    "socket": Bad("not a regular file", bound_socket),
    "device": Bad("not a regular file", lambda _: Path("/dev/zero")),
    "link-to-nothing": Bad("does not exist", link("nowhere")),
    "link-to-itself": Bad("cannot be read", link("m.pt")),
    "name-too-long": Bad("cannot be read", lambda folder: folder / ("n" * 300)),
    "name-with-nul": Bad("is not a valid path", lambda folder: folder / "a\0b.pt"),
    "name-with-a-newline": Bad("a\\nb.pt is empty", file(b"", "a\nb.pt")),
    "name-with-a-newline-and-a-module": Bad(
        "a\\nb.pt is a TorchScript", lambda folder: _renamed(folder, "a\nb.pt")
    ),
    "name-with-escapes": Bad("\\x1b[2J.pt is empty", file(b"", "\x1b[2J.pt")),
    "name-of-255-letters": Bad("is empty", file(b"", "n" * 252 + ".pt")),
    "name-that-is-no-text": Bad("\\udcff.pt is empty", file(b"", "\udcff.pt")),
    "harmless-name-that-is-no-text": Harmless(saved(STATE, "\udcff.pt")),
    "harmless-name-with-a-newline": Harmless(saved(STATE, "a\nb.pt")),
    "harmless-name-of-no-checkpoint": Harmless(saved(STATE, "weights")),
}


def _renamed(folder: Path, name: str) -> Path:
    from corpus_archives import unrelated_archive

    return unrelated_archive("m/constants.pkl")(folder).rename(folder / name)
