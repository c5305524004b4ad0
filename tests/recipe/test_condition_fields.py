"""The properties that conditions compare, and what is derived from their list."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe.selector import CONDITION_FIELDS, Pattern, examples, words


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "m.safetensors"
    tensors = {"fc.weight": torch.ones(2, 3), "fc.bias": torch.ones(2, dtype=torch.bfloat16)}
    save_file(tensors, path)
    with open_checkpoint(path) as opened:
        yield opened


def test_completions_name_what_the_checkpoint_has(checkpoint):
    completed = words(checkpoint)
    assert {"type:Linear", "dtype:float32", "dtype:bfloat16", "size>"} <= set(completed)
    assert {text.partition(":")[0].rstrip(">") for text in completed} == set(CONDITION_FIELDS)


def test_every_example_is_a_condition_on_its_field():
    for field in CONDITION_FIELDS.values():
        [condition] = Pattern.parse(field.example).conditions
        assert condition.field is field


def test_examples_of_numbers_leave_out_texts():
    assert examples() == "type:Linear, dtype:bfloat16, shape:768x*, dims>1, size>=1M, sparsity>90%"
    assert examples(numbers_only=True) == "dims>1, size>=1M, sparsity>90%"
