"""What `flax.serialization.msgpack_restore` reads, without flax, which needs jax.

These are its functions of version 0.12, with the dtypes of ml_dtypes as bytes.
"""

from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np

from prune_gui.checkpoint.flax.format import BYTE_DTYPES, CHUNKED, DTYPES

ML_DTYPES = {
    **dict.fromkeys(BYTE_DTYPES, "u1"),
    **{name: "u2" if name == "bfloat16" else "u1" for name in DTYPES if name not in np.sctypeDict},
}


def leaves_of_flax(octets: bytes) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    """Yield the arrays of a file with their paths, or raise what flax raises."""
    tree = msgpack.unpackb(octets, ext_hook=_extension, raw=False)
    yield from _leaves(_unchunked(tree), ())


def _extension(code: int, octets: bytes) -> Any:
    if code in (1, 3):
        shape, name, values = msgpack.unpackb(octets, raw=True)
        dtype = np.dtype(ML_DTYPES.get(name.decode(), name))
        return np.frombuffer(values, dtype).reshape(shape)
    if code == 2:
        real, imaginary = msgpack.unpackb(octets)
        return complex(real, imaginary)
    return msgpack.ExtType(code, octets)


def _unchunked(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if CHUNKED in tree:
        flat = np.concatenate(_in_order(tree["chunks"]))
        return flat.reshape(_in_order(tree["shape"]))
    return {key: _unchunked(value) for key, value in tree.items()}


def _in_order(members: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(members[str(index)] for index in range(len(members)))


def _leaves(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    match tree:
        case dict():
            for key, value in tree.items():
                name = key if isinstance(key, str) else key.decode()
                yield from _leaves(value, (*path, name))
        case list():
            for index, value in enumerate(tree):
                yield from _leaves(value, (*path, str(index)))
        case np.ndarray():
            yield path, tree
