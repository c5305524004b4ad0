"""A checkpoint with two parameters, and the subject of one of them after some steps."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.audit.view_data.subject import Subject
from prune_gui.checkpoint import open_checkpoint
from prune_gui.recipe import Recipe, resolve


@pytest.fixture
def subject_after(tmp_path):
    """Return a function of steps and keyword fields of the recipe; `draft` numbers the draft."""
    generator = torch.Generator().manual_seed(0)
    path = tmp_path / "small.safetensors"
    tensors = {
        "fc.weight": torch.randn(8, 6, generator=generator),
        "fc.bias": torch.arange(8.0) - 3,
    }
    save_file(tensors, path)
    with open_checkpoint(path) as checkpoint:

        def subject(*steps, name="fc.weight", draft=None, **fields):
            recipe = Recipe(steps=[{"targets": ["fc.weight"], **step} for step in steps], **fields)
            return Subject(resolve(recipe, checkpoint), checkpoint.tensors[name], draft)

        yield subject
