"""Names and magic numbers of the files of Keras."""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"\x89HDF\r\n\x1a\n"
WEIGHTS_RECORD: Final = "model.weights.h5"
"""The record of a `.keras` archive with the weights."""
HDF5_NAME: Final = "hdf5"
KERAS_NAME: Final = "keras"
