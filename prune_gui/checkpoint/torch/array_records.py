"""Numpy arrays in a pickle, from records of the calls that would build them."""

from __future__ import annotations

import re
from typing import Final, cast

import torch

from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.torch.claims import checked_numel
from prune_gui.checkpoint.torch.pickle_machine import ForeignObject

RECONSTRUCT: Final = re.compile(r"numpy\._?core\.multiarray\._reconstruct")
FROM_BUFFER: Final = re.compile(r"numpy\._?core\.numeric\._frombuffer")
DTYPES: Final = {
    "f8": torch.float64,
    "f4": torch.float32,
    "f2": torch.float16,
    "c16": torch.complex128,
    "c8": torch.complex64,
    "i8": torch.int64,
    "i4": torch.int32,
    "i2": torch.int16,
    "i1": torch.int8,
    "u8": torch.uint64,
    "u4": torch.uint32,
    "u2": torch.uint16,
    "u1": torch.uint8,
    "b1": torch.bool,
}
"""The dtypes of torch by numpy's type codes."""


class Arrays:
    """Converts records of numpy arrays to tensors, each array and each buffer once."""

    def __init__(self) -> None:
        self._tensors: dict[int, torch.Tensor | None] = {}
        self._buffers: dict[int, torch.Tensor] = {}

    def as_tensors(self, members: dict[object, object]) -> dict[object, object]:
        """Return a dictionary with tensors in place of arrays; the same one if it has no arrays.

        Arrays of other dtypes, of big-endian values, or with false claims are kept as records.
        """
        arrays = {
            key: tensor
            for key, member in members.items()
            if isinstance(member, ForeignObject) and (tensor := self._tensor(member)) is not None
        }
        return {**members, **arrays} if arrays else members

    def _tensor(self, record: ForeignObject) -> torch.Tensor | None:
        if id(record) not in self._tensors:
            self._tensors[id(record)] = self._converted(record)
        return self._tensors[id(record)]

    def _converted(self, record: ForeignObject) -> torch.Tensor | None:
        if RECONSTRUCT.fullmatch(record.path):
            match record.state:
                case (int(), tuple() as shape, dtype, fortran, bytes() as octets):
                    return self._view(octets, dtype, shape, fortran=fortran is True)
                case (int(), tuple() as shape, dtype, _, ForeignObject("builtins.bytes", ())):
                    return self._view(b"", dtype, shape, fortran=False)
        elif FROM_BUFFER.fullmatch(record.path):
            match record.arguments:
                case (bytes() | bytearray() as buffer, dtype, tuple() as shape, order):
                    return self._view(buffer, dtype, shape, fortran=order == "F")
        return None

    def _view(
        self, octets: bytes | bytearray, dtype: object, shape: tuple[object, ...], *, fortran: bool
    ) -> torch.Tensor | None:
        element = _dtype(dtype)
        if element is None:
            return None
        try:
            numel = checked_numel((), shape)
        except FalseClaimError:
            return None
        sizes = cast("tuple[int, ...]", shape)
        if numel * element.itemsize != len(octets):
            return None
        if not octets:
            return torch.empty(sizes, dtype=element)
        if id(octets) not in self._buffers:
            self._buffers[id(octets)] = torch.frombuffer(bytearray(octets), dtype=torch.uint8)
        values = self._buffers[id(octets)].view(element)
        if fortran:
            return values.reshape(sizes[::-1]).permute(*reversed(range(len(sizes))))
        return values.reshape(sizes)


def _dtype(record: object) -> torch.dtype | None:
    """Return the dtype of a record of numpy.dtype; None if torch has none, or it is big-endian."""
    match record:
        case ForeignObject("numpy.dtype", (str() as code, *_), (_, byte_order, *_)):
            return DTYPES.get(code) if byte_order != ">" else None
    return None
