"""Modules of a library that exists only while a file is written, as the code of other people."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

SOURCE = """
import enum
import torch
from torch import nn

class Act(enum.Enum):
    SILU = 1

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.act = Act.SILU
        self.tanh = torch.tanh
        self.silu = nn.functional.silu
        self.register_buffer("anchors", torch.ones(2), persistent=False)

    def forward(self, x):
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(Block(), nn.Linear(4, 4), nn.GroupNorm(2, 4))
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.model[1].weight
        self.unused = None
        self.register_parameter("empty", None)
        self.method = self.model[0].forward

    def forward(self, x):
        return x

    def get_extra_state(self):
        return {"version": 1}

    def set_extra_state(self, state):
        pass

class Config(dict):
    pass
"""


@contextmanager
def yolib() -> Iterator[Any]:
    """Yield a library with the classes of `SOURCE`, which cannot be imported afterwards."""
    library = types.ModuleType("yolib")
    sys.modules["yolib"] = library
    try:
        exec(SOURCE, vars(library))
        yield library
    finally:
        del sys.modules["yolib"]


def expected_names(module: torch.nn.Module) -> list[str]:
    """Return the names of the tensors in the state dict of a module."""
    return [key for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)]
