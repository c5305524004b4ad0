"""Evaluators that behave well or badly, and a check that none of their processes is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import psutil
import pytest
import torch
from safetensors.torch import save_file

from prune_gui.evaluation import Evaluator

END_TIMEOUT_S = 5.0


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = set(psutil.Process().children(recursive=True))
    yield
    deadline = time.monotonic() + END_TIMEOUT_S
    while left := set(psutil.Process().children(recursive=True)) - before:
        if time.monotonic() > deadline:
            pytest.fail(f"processes left running: {left}")
        time.sleep(0.05)


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    """Return a checkpoint of two parameters with the values 1 to 12 and 1 to 4."""
    tensors = {"a.weight": torch.arange(1.0, 13).reshape(3, 4), "b.weight": torch.arange(1.0, 5)}
    path = tmp_path / "model" / "small.safetensors"
    path.parent.mkdir()
    save_file(tensors, path, {"format": "pt"})
    return path


@pytest.fixture
def evaluator(tmp_path) -> Iterator[Callable[..., Evaluator]]:
    """Return a function that makes an evaluator of a source text; its database is temporary."""
    made: list[Evaluator] = []

    def make(source: str, call: str = "FILE:evaluate", **options) -> Evaluator:
        path = tmp_path / "own_eval.py"
        path.write_text(dedent(source))
        options = {"database": tmp_path / "evaluations.sqlite3", "timeout_s": 60.0} | options
        made.append(Evaluator(call.replace("FILE", str(path)), **options))
        return made[-1]

    yield make
    for each in made:
        each.close()
