"""No text of the program loads a file in a way that can run code of the file."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
import torch

import prune_gui
from prune_gui.checkpoint import open_checkpoint
from prune_gui.checkpoint.formats import FORMATS
from prune_gui.monitor import Monitor
from prune_gui.recipe import OutputPath, Recipe, resolve
from prune_gui.recipe.loader import compact_loader_text, loader_text
from prune_gui.recipe.output import OutputOptions
from prune_gui.recipe.script import command_line, python_script
from prune_gui.report.collecting import report_on_files
from prune_gui.report.writing import html_page
from prune_gui.resources import resource

LOADS = re.compile(
    r"(?<![\w.])(?:(?:torch\.jit|pickle|joblib|dill|cloudpickle|marshal|shelve)\.(?:loads?|open)"
    r"|torch\.load|(?:np|numpy)\.load|yaml\.(?:unsafe_|full_)?load)"
    r"\((?:[^()]|\([^()]*\))*\)?"
)
SAFE = re.compile(r"torch\.load\(.*weights_only=True|(?:np|numpy)\.load\((?!.*allow_pickle)", re.S)
RECIPE = Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "targets": ["w"], "amount": 0.5}]}
)
ROOT = Path(prune_gui.__file__).parent
RUNS_OWN_TASKS = {"cluster.py"}
"""Modules that unpickle what other processes of the program send."""


def unsafe(text: str) -> list[str]:
    """Return the calls in a text that may run code of a file."""
    loads = [found[0] for found in LOADS.finditer(text)]
    found = [load for load in loads if not SAFE.match(load)]
    return found + re.findall(r"\([^()\n]*weights_only=False", text)


@pytest.mark.parametrize(
    ("text", "is_safe"),
    [
        ('torch.load(folder / "a.pt", map_location="cpu", weights_only=True)["x"]', True),
        ("torch.load(path)", False),
        ("torch.load(path, weights_only=False)", False),
        ("x = torch.jit.load('a.pt')", False),
        ("pickle.load(file)", False),
        ("np.load(path, allow_pickle=True)", False),
        ("np.load(path)", True),
        ("load it with weights_only=False only if you trust it", True),
    ],
)
def test_the_search_finds_unsafe_calls(text, is_safe):
    assert (unsafe(text) == []) == is_safe


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("tensors_only", [False, True])
def test_what_is_written_for_a_file_loads_nothing_unsafely(
    tmp_path, named, nested, legacy, tensors_only
):
    state = {"w": torch.ones(4), **({"args": argparse.Namespace()} if named else {})}
    content = {"state_dict": state, "ema": {"w": torch.zeros(4)}} if nested else state
    path = tmp_path / "model.pt"
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    with open_checkpoint(path) as checkpoint:
        resolution = resolve(RECIPE, checkpoint)
        target = OutputPath.of(
            checkpoint, tmp_path / "out.pt", OutputOptions(tensors_only=tensors_only)
        )
        texts = [
            python_script(resolution, tmp_path / "out.safetensors"),
            loader_text(checkpoint, target),
            loader_text(checkpoint, target, anywhere=True),
            compact_loader_text(checkpoint, target),
            command_line(RECIPE, checkpoint, target.path, None),
            html_page(report_on_files([checkpoint], None, Monitor(), with_folders=False)),
        ]
    assert [call for text in texts for call in unsafe(text)] == []


def test_no_format_document_or_module_has_a_line_that_loads_unsafely():
    texts = {f"format {each.name}": each.load_code for each in FORMATS}
    resources, checkout = resource("guide").parent, Path(__file__).parents[2]
    for folder, pattern in (
        (ROOT, "**/*.py"),
        (resources, "**/*.py"),
        (resources, "**/*.md"),
        (checkout, "*.md"),
        (checkout, "docs/**/*.md"),
    ):
        for path in folder.glob(pattern):
            if path.name not in RUNS_OWN_TASKS:
                texts[str(path)] = path.read_text(encoding="utf-8")
    assert len(texts) > 500
    assert {name: unsafe(text) for name, text in texts.items() if unsafe(text)} == {}
