"""Every bad file of the corpus: refused in one clear line, or opened without harm."""

import json
import re
import sys

import pytest
from corpus import CORPUS
from corpus_forms import RAN, Bad
from python_process import run_python

from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.tensor_info import PACKED_DTYPES
from prune_gui.errors import CheckpointError, one_line
from prune_gui.session import ModuleIndex

BOMBS_ARE_SLOW = [
    pytest.param(name, marks=pytest.mark.slow if file.bomb else ()) for name, file in CORPUS.items()
]
REMEDY = re.compile(
    r"\b(Get|Save|save|Convert|Unpack|Rename|Open|Choose|Check|Download|Run|run|Install|Close|Make"
    r"|Move)\b|git lfs pull"
)


def read_everything(checkpoint) -> None:
    for info in checkpoint.tensors.values():
        try:
            tensor = checkpoint.read(info.name)
        except CheckpointError as error:
            check_message(str(error), checkpoint.path.name)
            continue
        assert tuple(tensor.shape) == info.shape or info.dtype in PACKED_DTYPES
        if info.special is None and tensor.numel():
            tensor.reshape(-1)[-1].item()
    index = ModuleIndex(checkpoint.tensors.values())
    for number in range(min(len(index.tensors), 50)):
        if number < 1 + len(index.children(0)):
            index.children(number)
    for warning in checkpoint.warnings:
        assert warning.isprintable()
        assert len(warning) < 600


def check_message(message: str, name: str) -> None:
    assert len(message) < 600
    assert message.isprintable()
    assert one_line(name)[:100] in message
    assert REMEDY.search(message)


@pytest.mark.parametrize("name", BOMBS_ARE_SLOW)
def test_a_bad_file_is_refused_in_one_clear_line_or_opens_safely(tmp_path, name):
    made = CORPUS[name]
    path = made.make(tmp_path)
    try:
        opened = open_checkpoint(path)
    except CheckpointError as error:
        message = str(error)
        check_message(message, path.name)
        assert isinstance(made, Bad), message
        assert made.says in message
    else:
        with opened:
            read_everything(opened)
            assert made.says in " ".join(opened.warnings)
        assert not isinstance(made, Bad), opened.tensors
    assert not (tmp_path / RAN).exists()


BOMBS = [name for name, made in CORPUS.items() if made.bomb]
OPEN_EACH = """
import json, resource, sys
import torch
from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import CheckpointError

def most():
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most

grown, before = {}, most()
for path in sys.argv[1:]:
    try:
        open_checkpoint(path).close()
    except CheckpointError:
        pass
    grown[path], before = most() - before, most()
print(json.dumps(grown))
"""
MAX_GROWTH_BYTES = 150_000_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs getrusage")
def test_a_bomb_takes_little_memory_before_it_is_refused(tmp_path):
    paths = {}
    for name in BOMBS:
        folder = tmp_path / name
        folder.mkdir()
        paths[str(CORPUS[name].make(folder))] = name
    printed = json.loads(run_python(OPEN_EACH, *paths))
    grown = {paths[path]: growth for path, growth in printed.items()}
    assert {name: growth for name, growth in grown.items() if growth > MAX_GROWTH_BYTES} == {}
