"""The floating types that tests go through."""

import torch

ORDERED = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
"""Types whose bits, without the sign, order as their numbers do without theirs."""
