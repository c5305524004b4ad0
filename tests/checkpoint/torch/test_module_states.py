"""Whole modules without the code of their classes, and which files are called safe."""

import argparse
import collections
import functools
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from applied import exported
from corpus_forms import LEGACY, archive, call, dictionary, legacy, name, tensor, text
from corpus_payloads import expected_names, yolib
from torch._weights_only_unpickler import _get_allowed_globals

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.named_code import code_statement, runs_programs
from prune_gui.checkpoint.torch.unpickling import _CALLS
from prune_gui.recipe import Recipe

pytestmark = pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")


def check_equal(checkpoint, module: torch.nn.Module) -> None:
    state = module.state_dict()
    names = expected_names(module)
    assert list(checkpoint.keys) == names
    for key in names:
        assert torch.equal(checkpoint.read_key(key), state[key].cpu())  # DataParallel moves it


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("options", [{}, LEGACY], ids=["zip", "legacy"])
def test_a_whole_module_has_the_tensors_of_its_state_dict(saved, protocol, options):
    with yolib() as library:
        module = library.Net()
        path = saved(module, pickle_protocol=protocol, **options)
    with open_checkpoint(path) as checkpoint:
        check_equal(checkpoint, module)
        assert checkpoint.tensors["model.1.weight"].aliases == ("head.weight",)
        assert {"yolib.Net", "yolib.Block"} <= set(checkpoint.foreign)
        assert not checkpoint.loads_without_code
        assert checkpoint.warnings[0] == code_statement(checkpoint.foreign)


def test_the_classes_in_the_file_are_the_types_of_modules(saved):
    with yolib() as library:
        path = saved(library.Net())
    with open_checkpoint(path) as checkpoint:
        types = checkpoint.module_types
        assert types["model.0.conv.weight"] == {"Net", "Sequential", "Block", "Conv2d"}
        assert {"BatchNorm2d", "BatchNorm"} <= types["model.0.bn.weight"]
        assert types["model.2.weight"] == {"Net", "Sequential", "GroupNorm"}  # not a LayerNorm


@pytest.mark.parametrize("key", ["model", "ema"])
def test_modules_in_a_dictionary_are_states_to_choose_from(saved, key):
    with yolib() as library:
        modules = {"model": library.Net(), "ema": library.Net()}
        content = {**modules, "train_args": library.Config(lr=1), "date": None}
        path = saved(content)
    with open_checkpoint(path, key) as checkpoint:
        assert checkpoint.candidates == ("model", "ema")
        check_equal(checkpoint, modules[key])


def test_a_module_in_a_named_tuple_is_found(tmp_path):
    opcodes = dictionary(pair=name("lib.Pair") + b"(K\x03" + module_opcodes(b"}") + b"t\x81")
    with open_checkpoint(archive(opcodes)(tmp_path)) as checkpoint:
        assert checkpoint.state_dict == "pair.1"


def wrapped(kind: str) -> torch.nn.Module:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.LSTM(3, 2))
    return {
        "torch": lambda: module,
        "parallel": lambda: torch.nn.DataParallel(module),
        "averaged": lambda: torch.optim.swa_utils.AveragedModel(module),
        "graph": lambda: torch.fx.symbolic_trace(module[:2]),
    }[kind]()


@pytest.mark.parametrize("kind", ["torch", "parallel", "averaged", "graph"])
def test_modules_of_torch_open(saved, kind):
    module = wrapped(kind)
    with open_checkpoint(saved(module)) as checkpoint:
        check_equal(checkpoint, module)


def test_a_compiled_module_has_the_names_of_its_state_dict(tmp_path):
    linear = name("torch.nn.modules.linear.Linear") + b")\x81"
    linear += dictionary(_parameters=dictionary(weight=tensor()), _modules=b"}") + b"b"
    opcodes = name("torch._dynamo.eval_frame.OptimizedModule") + b"(" + linear + b"NtR"
    with open_checkpoint(archive(opcodes)(tmp_path)) as checkpoint:
        assert list(checkpoint.tensors) == ["_orig_mod.weight"]


def test_states_that_trainers_keep_without_weights_are_no_candidates(saved):
    content = {
        "rng": torch.ones(100, dtype=torch.uint8),
        "callbacks": {"best": torch.tensor(0.5), "config": argparse.Namespace(lr=1)},
        "state_dict": {"w": torch.ones(2)},
    }
    with open_checkpoint(saved(content)) as checkpoint:
        assert checkpoint.candidates == ("state_dict",)


def test_the_averaged_module_is_opened_of_two_equal_ones(saved):
    with yolib() as library:
        path = saved({"model": library.Net(), "ema": library.Net()})
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.state_dict == "ema"


def test_a_foreign_file_is_saved_as_safetensors(saved, tmp_path):
    with yolib() as library:
        module = library.Net()
        exported(saved({"nets": [None, {"model": module}]}), tmp_path / "out.safetensors", Recipe())
    with open_checkpoint(tmp_path / "out.safetensors") as written:
        assert sorted(written.keys) == sorted(expected_names(module))


def module_opcodes(modules: bytes) -> bytes:
    attributes = dictionary(_parameters=dictionary(w=tensor()), _modules=modules)
    return name("a.B") + b")\x81" + attributes + b"b"


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
    every = {*allowed, *types, *_CALLS}
    named = {f"name{number}": name(path) for number, path in enumerate(sorted(every))}
    opened = archive(dictionary(w=tensor(), **named))(tmp_path)
    assert set(foreign_names(opened)) == every - allowed.keys()


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
