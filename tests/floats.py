"""The floating-point dtypes that tests are parametrized with."""

import torch

ORDERED = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
"""Dtypes whose bit patterns without the sign bit order as the absolute values do."""
