"""The source of graph modules, which is read but never executed."""

from __future__ import annotations

from itertools import chain

import pytest
import torch
from corpus_forms import archive, call, dictionary, tensor, text

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.torch.graph_code import names_in_source, sources
from prune_gui.checkpoint.torch.pickle_names import is_refused
from prune_gui.errors import CheckpointError

ATTACKS = [
    *("import os", "from os import system as x", "import torch, subprocess", "x = eval('1')"),
    *("torch.hub.load('a')", "().__class__", "import torch; import sys", "from torch import hub"),
    *("import importlib.util as z", "from builtins import getattr as g", "g = getattr"),
    *("from torch.utils import cpp_extension", "torch . hub.load('')", "(torch).load('x')"),
    *("import torch as t\nt.load('x')", "from os \\\n import system", 'getattr(x, "load")'),
]


@pytest.mark.parametrize("source", ATTACKS)
def test_source_that_runs_code_or_uses_files_names_something_dangerous(source):
    for arguments in (({"_code": source}, ""), ({}, source)):
        names = chain.from_iterable(map(names_in_source, sources(arguments)))
        assert any(map(is_refused, names))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sequential())

    def forward(self, x):
        y = torch.nn.functional.gelu(self.layers(x)) + float("inf")
        return y.size(0) // 2, getattr(y, "shape"), torch.add(y, 1).chunk(2, 1), y[None]  # noqa: B009


def test_source_that_torch_writes_names_nothing_dangerous():
    _, arguments = torch.fx.symbolic_trace(Net()).__reduce__()
    assert "getattr" in arguments[0]["_code"]
    names = list(chain.from_iterable(map(names_in_source, sources(arguments))))
    assert "torch.nn.functional.gelu" in names or "torch._C._nn.gelu" in names
    assert not any(map(is_refused, names))


def test_a_graph_module_whose_source_is_an_attack_is_refused(tmp_path):
    body = dictionary(_parameters=dictionary(w=tensor()), _modules=b"}", _code=text("import os"))
    opcodes = call("torch.fx.graph_module.reduce_graph_module", body, text(""))
    with pytest.raises(
        CheckpointError, match=r"needs the code of os\.Module .* looks like an attack"
    ):
        open_checkpoint(archive(opcodes)(tmp_path))
