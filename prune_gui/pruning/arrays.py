"""Names of the types of arrays, and of the numbers in them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Key = np.unsignedinteger[Any]
Bits = NDArray[np.unsignedinteger[Any]]
"""The bit patterns of numbers."""
Codes = NDArray[np.uint8]
"""0, or the number of the step that prunes an element."""
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Numbers = NDArray[np.float64]
Values = NDArray[np.floating[Any]]
"""Floating-point numbers of any width."""
