"""Malformed HDF5 files and `.keras` archives. Each is listed by a process, so there are few."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from corpus_forms import Bad, Harmless, file
from corpus_npz import not_text

F32 = h5py.h5t.IEEE_F32LE


def hdf5_bytes(add: Callable[[h5py.File], object] = lambda _: None) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as target:
        target["layers/dense/vars/0"] = np.ones((4, 4), np.float32)
        add(target)
    return buffer.getvalue()


def hdf5(add: Callable[[h5py.File], object]) -> Callable[[Path], Path]:
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


def typed(base: h5py.h5t.TypeID, **changes: object) -> Callable[[Path], Path]:
    """Return a function that writes numbers of a type of HDF5 in which something is changed."""
    stored = base.copy()
    for name, value in changes.items():
        getattr(stored, f"set_{name}")(*(value if isinstance(value, tuple) else (value,)))
    space = h5py.h5s.create_simple((4,))
    return hdf5(lambda target: h5py.h5d.create(target.id, b"x", stored, space))


def pair(offset: int) -> h5py.h5t.TypeID:
    """Return the type of a complex number in 16 bytes, whose real part is at an offset."""
    both = h5py.h5t.create(h5py.h5t.COMPOUND, 16)
    both.insert(b"r", offset, F32)
    both.insert(b"i", 8 - offset, F32)
    return both


def enum(base: h5py.h5t.TypeID) -> h5py.h5t.TypeID:
    values = h5py.h5t.enum_create(base)
    values.enum_insert(b"FALSE", 0)
    values.enum_insert(b"TRUE", 1)
    return values


UNUSUAL: dict[str, Callable[[Path], Path]] = {
    "exponent-bias": typed(F32, ebias=100),
    "exponent-longer": typed(F32, fields=(31, 22, 9, 0, 22)),
    "sign-last": typed(F32, fields=(0, 24, 8, 1, 23)),
    "normalization": typed(F32, norm=h5py.h5t.NORM_NONE),
    "fill-bits": typed(F32, pad=(h5py.h5t.PAD_ONE, h5py.h5t.PAD_ONE)),
    "inner-fill-bits": typed(F32, inpad=h5py.h5t.PAD_ONE),
    "size": typed(F32, size=8),
    "bfloat16-of-hdf5": typed(h5py.h5t.IEEE_F16LE, fields=(15, 7, 8, 0, 7), ebias=127),
    "float16-bias": typed(h5py.h5t.IEEE_F16LE, ebias=16),
    "integer-fill-bits": typed(h5py.h5t.STD_I32LE, pad=(h5py.h5t.PAD_ONE, h5py.h5t.PAD_ONE)),
    "integer-precision": typed(h5py.h5t.STD_I8LE, precision=5),
    "integer-offset": typed(h5py.h5t.STD_U8LE, precision=5, offset=3),
    "complex-gap": typed(pair(0)),
    "complex-swapped": typed(pair(8)),
    "bool-of-4-bytes": typed(enum(h5py.h5t.STD_I32LE)),
}

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
    "archive-cut-off": Bad("damaged zip", file(keras_bytes()[:-30], "m.keras")),
    **{name: Bad("'x' have a form that NumPy does not", make) for name, make in UNUSUAL.items()},
    "harmless-complex": Harmless(hdf5(lambda f: f.update({"c": np.ones(3, np.complex64)}))),
    "harmless-bool": Harmless(hdf5(lambda f: f.update({"b": np.ones(3, bool)}))),
    "harmless-special": Harmless(hdf5(add_everything_special)),
}
