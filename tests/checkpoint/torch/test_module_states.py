"""Whole modules, opened without the code of their classes."""

from __future__ import annotations

import argparse

import pytest
import torch
from corpus_forms import LEGACY, archive, dictionary, name, tensor
from corpus_payloads import expected_names, yolib

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.named_code import code_statement
from prune_gui.recipe import Recipe, export, resolve

pytestmark = pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")


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


def module_opcodes(modules: bytes) -> bytes:
    attributes = dictionary(_parameters=dictionary(w=tensor()), _modules=modules)
    return name("a.B") + b")\x81" + attributes + b"b"
