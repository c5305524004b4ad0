"""What is called safe is what torch.load reads by default, with weights_only=True."""

from __future__ import annotations

import collections
import functools
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from corpus_forms import LEGACY, archive, call, dictionary, legacy, name, tensor, text
from torch._weights_only_unpickler import _get_allowed_globals

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.named_code import runs_programs
from prune_gui.checkpoint.torch.unpickling import _CALLS


def foreign_names(path: Path) -> tuple[str, ...]:
    with open_checkpoint(path) as opened:
        return opened.foreign


def with_name(path: str) -> bytes:
    """Return the opcodes of a state dict beside a class or function that is never called."""
    return dictionary(w=tensor(), named=name(path))


def test_exactly_the_names_that_torch_reads_by_default_are_safe(tmp_path):
    allowed = _get_allowed_globals()
    types = [
        f"{module.__name__}.{attribute}"
        for module in (torch, torch.cuda, torch.sparse, torch.storage)
        for attribute in vars(module)
        if not attribute.startswith("__")
    ]
    for path in {*allowed, *types, *_CALLS}:
        is_safe = foreign_names(archive(with_name(path))(tmp_path)) == ()
        assert is_safe == (path in allowed), path


class Settings:
    """A class of the owner's program."""

    class Nested:
        """A class in it."""

    def method(self) -> None:
        """Do nothing."""


W = torch.ones(2)
FILES = {
    "plain": ({"w": W}, {}),
    "legacy": ({"w": W}, LEGACY),
    "protocol 3": ({"w": W}, {"pickle_protocol": 3}),
    "protocol 4": ({"w": W}, {"pickle_protocol": 4}),
    "protocol 5, legacy": ({"w": W}, {**LEGACY, "pickle_protocol": 5}),
    "many values": ({"w": W, "v": [1, 2.5, None, {"a": (1, 2)}, {3}, 1j, bytearray(b"x")]}, {}),
    "bytes": ({"w": W, "v": b"bytes"}, {}),
    "a long number": ({"w": W, "v": 1 << 3000}, {}),
    "a frozen set": ({"w": W, "v": frozenset({1})}, {}),
    "a counter": ({"w": W, "v": collections.Counter("ab")}, {}),
    "a default dictionary": ({"w": W, "v": collections.defaultdict(list)}, {}),
    "an array": ({"w": W, "v": np.ones(2)}, {}),
    "a class": ({"w": W, "v": Settings}, {}),
    "an object": ({"w": W, "v": Settings()}, {}),
    "a nested class": ({"w": W, "v": Settings.Nested}, {}),
    "a method": ({"w": W, "v": Settings().method}, {}),
    "a partial": ({"w": W, "v": functools.partial(int, base=2)}, {}),
    "a dtype": ({"w": W, "v": torch.bfloat16}, {}),
    "a function of torch": ({"w": W, "v": torch.tanh}, {}),
    "a version": ({"w": W, "v": torch.__version__}, {}),
    "a module": (torch.nn.Linear(2, 2), {}),
    "a parameter": ({"w": torch.nn.Parameter(W)}, {}),
    "a state dict": (torch.nn.Linear(2, 2).state_dict(), {}),
    "an optimizer": ({"w": W, "o": torch.optim.SGD([W]).state_dict()}, {}),
}


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("kind", FILES)
def test_a_file_loads_without_code_if_torch_loads_it_by_default(saved, kind):
    content, options = FILES[kind]
    path = saved(content, **options)
    try:
        torch.load(path, weights_only=True)
    except pickle.UnpicklingError:
        loads = False
    else:
        loads = True
    with open_checkpoint(path) as opened:
        assert opened.loads_without_code == loads


GETATTR = name("builtins.getattr")
OUTER = name("mynet.Outer")


def got(owner: bytes, attribute: bytes) -> bytes:
    return call("builtins.getattr", owner, attribute)


PARTIAL = name("functools.partial")
IN_STATE = got(OUTER, text("Inner")) + b"0" + PARTIAL + b")R(" + GETATTR + b")tb"


@pytest.mark.parametrize(
    ("value", "names", "is_strong"),
    [
        (got(OUTER, text("Inner")), "mynet.Outer mynet.Outer.Inner", False),
        (got(OUTER + b")R", text("run")), "mynet.Outer mynet.Outer.run", False),
        (got(tensor(), text("tofile")), "torch.Tensor.tofile", False),
        (got(OUTER, text("__globals__")), "mynet.Outer.__globals__", True),
        (got(OUTER, OUTER + b")R"), "builtins.getattr mynet.Outer", True),
        (GETATTR, "builtins.getattr", True),
        (GETATTR + b"0" + OUTER, "builtins.getattr mynet.Outer", True),
        (
            PARTIAL + call("builtins.tuple", b"]" + GETATTR + b"a") + b"R",
            "functools.partial builtins.tuple builtins.getattr",
            True,
        ),
        (IN_STATE, "builtins.getattr functools.partial", True),
    ],
)
def test_attributes_are_named_and_getattr_itself_where_it_may_get_anything(
    tmp_path, value, names, is_strong
):
    found = foreign_names(archive(dictionary(w=tensor(), v=value))(tmp_path))
    assert set(names.split()) <= set(found)
    assert bool(runs_programs(found)) == is_strong


def test_the_names_in_every_pickle_of_a_legacy_file_count(tmp_path):
    path = legacy(dictionary(w=tensor()))(tmp_path)
    octets = path.read_bytes()
    keys = octets.index(b"\x80\x02]")
    path.write_bytes(octets[:keys] + b"\x80\x02" + name("a.B") + b"0" + octets[keys + 2 :])
    assert foreign_names(path) == ("a.B",)
