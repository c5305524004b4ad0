"""Malformed HDF5 files and `.keras` archives. Each is listed by a process, so there are few."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from corpus_forms import Bad, Harmless, file
from corpus_npz import not_text


def hdf5_bytes(add: Callable[[h5py.File], object] = lambda _: None) -> bytes:
    """Return an HDF5 file with one dataset, and what `add` adds to it."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as target:
        target["layers/dense/vars/0"] = np.ones((4, 4), np.float32)
        add(target)
    return buffer.getvalue()


def hdf5(add: Callable[[h5py.File], object]) -> Callable[[Path], Path]:
    """Return a function that writes an HDF5 file; see `hdf5_bytes`."""
    return lambda folder: file(hdf5_bytes(add), "m.weights.h5")(folder)


def add_virtual(target: h5py.File) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4,))
    target.create_virtual_dataset("v", layout)


def add_external(target: h5py.File) -> None:
    target.create_dataset("v", (4,), "f4", external=[("/etc/passwd", 0, 16)])


def add_cycle(target: h5py.File) -> None:
    target["layers/again"] = target["layers"]


def add_everything_special(target: h5py.File) -> None:
    values = np.ones((64, 64), np.float32)
    target.create_dataset("zipped", data=values, compression="gzip")
    target.create_dataset("chunked", data=values, chunks=(8, 8))
    target.create_dataset("huge", (1 << 40,), "f4")
    target["text"] = "abc"
    target["big"] = values.astype(">f4")
    target.create_dataset("none", dtype="f4", shape=None, data=h5py.Empty("f4"))
    target["records"] = np.zeros(2, [("x", "f4")])


def keras_bytes(name: str = "model.weights.h5", compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as target:
        target.writestr("config.json", "{}")
        target.writestr(name, hdf5_bytes())
    return buffer.getvalue()


KERAS: dict[str, Bad | Harmless] = {
    "magic-alone": Bad("HDF5 library cannot read", file(b"\x89HDF\r\n\x1a\n" + bytes(99), "m.h5")),
    "cut-off": Bad("HDF5 library cannot read", file(hdf5_bytes()[:1500], "m.h5")),
    "soft-link": Bad("it has links", hdf5(lambda f: f.update({"s": h5py.SoftLink("/layers")}))),
    "external-link": Bad(
        "it has links", hdf5(lambda f: f.update({"e": h5py.ExternalLink("/tmp/x.h5", "/")}))
    ),
    "virtual": Bad("values in other files", hdf5(add_virtual)),
    "external": Bad("values in other files", hdf5(add_external)),
    "cycle": Bad("a group in itself", hdf5(add_cycle)),
    "archive-compressed": Bad("is compressed", file(keras_bytes(compression=8), "m.keras")),
    "archive-name-not-text": Bad(
        "damaged zip", file(not_text(keras_bytes(), b"config.json"), "m.keras")
    ),
    "archive-config-changed": Bad(
        "Bad CRC-32 for file 'config.json'", file(keras_bytes().replace(b"{}", b"[]"), "m.keras")
    ),
    "archive-value-changed": Bad(
        "Bad CRC-32 for file 'model.weights.h5'",
        file(keras_bytes().replace(b"\0\0\x80?", b"\0\0\x80@", 1), "m.keras"),
    ),
    "archive-cut-off": Bad("damaged zip", file(keras_bytes()[:-30], "m.keras")),
    "harmless-special": Harmless(hdf5(add_everything_special)),
}
