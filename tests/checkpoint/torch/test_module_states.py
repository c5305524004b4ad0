"""Whole modules, opened without the code of their classes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from corpus_forms import LEGACY, archive, call, dictionary, name, tensor

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.named_code import code_statement
from prune_gui.errors import CheckpointError
from prune_gui.recipe import Recipe, export, resolve

pytestmark = pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
LIBRARY = """
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
    """Yield a library with the classes of `LIBRARY`, which cannot be imported afterwards."""
    library = types.ModuleType("yolib")
    sys.modules["yolib"] = library
    try:
        exec(LIBRARY, vars(library))
        yield library
    finally:
        del sys.modules["yolib"]


def expected_names(module: torch.nn.Module) -> list[str]:
    """Return the names of the tensors in the state dict of a module."""
    return [key for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)]


def check_equal(checkpoint, module: torch.nn.Module) -> None:
    state = module.state_dict()
    names = expected_names(module)
    assert list(checkpoint.keys) == names
    for key in names:
        assert torch.equal(checkpoint.read_key(key), state[key])


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
        with open_checkpoint(saved({"nets": [None, {"model": module}]})) as checkpoint:
            export(resolve(Recipe(), checkpoint), tmp_path / "out.safetensors")
    with open_checkpoint(tmp_path / "out.safetensors") as written:
        assert sorted(written.keys) == sorted(expected_names(module))


def test_a_tensor_that_needs_code_is_reported(tmp_path):
    subclass = call("torch._utils._rebuild_wrapper_subclass", name("a.B"))
    with open_checkpoint(archive(dictionary(a=tensor(), b=subclass))(tmp_path)) as checkpoint:
        assert list(checkpoint.tensors) == ["a"]
        assert any("1 tensor that is in no state dict" in text for text in checkpoint.warnings)


def test_claims_of_tensors_behind_foreign_names_are_checked(tmp_path):
    opcodes = dictionary(x=name("a.B") + b")R", w=tensor(offset=b"K\x01"))
    with pytest.raises(CheckpointError, match="does not fit its 16 bytes"):
        open_checkpoint(archive(opcodes)(tmp_path))


def module_opcodes(modules: bytes) -> bytes:
    attributes = dictionary(_parameters=dictionary(w=tensor()), _modules=modules)
    return name("a.B") + b")\x81" + attributes + b"b"


@pytest.mark.timeout(20)
def test_a_module_that_contains_itself_is_refused(tmp_path):
    attributes = dictionary(_parameters=dictionary(w=tensor()), _modules=dictionary(me=b"h\x01"))
    opcodes = name("a.B") + b")\x81q\x01" + attributes + b"b"
    with pytest.raises(CheckpointError, match="nested too deeply, or contain each other"):
        open_checkpoint(archive(opcodes)(tmp_path))


@pytest.mark.timeout(20)
def test_modules_that_are_shared_exponentially_are_refused(tmp_path):
    opcodes = module_opcodes(b"}") + b"q\x01"
    for _ in range(40):
        opcodes += b"0" + module_opcodes(dictionary(a=b"h\x01", b=b"h\x01")) + b"q\x01"
    with pytest.raises(CheckpointError, match="nested too deeply, or contain each other"):
        open_checkpoint(archive(opcodes)(tmp_path))


WATCH = """
import json, os, sys
import torch, numpy
import prune_gui
from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
prune_gui.open_checkpoint(sys.argv[1]).close()
events = []
before = set(sys.modules)
def watch(event, arguments):
    if event in ("import", "exec", "compile", "socket.connect", "subprocess.Popen", "os.system"):
        events.append((event, str(arguments)[:200]))
    elif event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        events.append((event, str(arguments)[:200]))
sys.addaudithook(watch)
with prune_gui.open_checkpoint(sys.argv[2]) as checkpoint:
    for key in checkpoint.keys:
        checkpoint.read_key(key)
print(json.dumps([sorted(set(sys.modules) - before), events, len(checkpoint.keys)]))
"""


@pytest.mark.slow
def test_nothing_is_imported_executed_or_opened_for_a_foreign_file(saved, tmp_path):
    plain = saved(torch.nn.Linear(2, 2).state_dict(), "plain.pt")
    with yolib() as library:
        content = {"model": library.Net(), "graph": wrapped("graph"), "config": library.Config(a=1)}
        foreign = saved(content, "foreign.pt")
    (tmp_path / "yolib.py").write_text("raise SystemExit('imported')")
    done = subprocess.run(
        [sys.executable, "-c", WATCH, plain, foreign],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    imported, events, tensors = json.loads(done.stdout)
    assert imported == []
    assert events == []
    assert tensors == 11
