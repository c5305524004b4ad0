"""The pages of the documentation that are generated, and what they must not miss."""

from __future__ import annotations

import ast
import re
import runpy
from types import SimpleNamespace

import click
import pytest
from blocks import ROOT

import prune_gui
from prune_gui import training
from prune_gui.cli.program import COMMANDS, cli
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Step


@pytest.fixture(scope="module")
def site() -> SimpleNamespace:
    """Return the module that MkDocs runs."""
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "hooks" / "site.py")))


def test_every_method_and_field_is_in_the_reference(site):
    text = site.methods_page()
    for method in METHODS.values():
        if method.source == "built-in":
            section = text.partition(f"{{ #{method.name} }}")[2].partition("\n### ")[0]
            for name, field in method.model_fields.items():
                (row,) = re.findall(rf"^\| `{name}` \| .*$", section, re.MULTILINE)
                assert (field.description or "").replace("|", "\\|") in row


def test_every_command_and_option_is_in_the_reference(site):
    text = site.command_line_page()
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        if command.hidden:
            continue
        section = text.partition(f"\n## {command.name}\n")[2].partition("\n## ")[0]
        options = [option for param in command.params for option in param.opts if "-" in option]
        assert [option for option in options if option not in section] == []


def test_every_public_name_is_in_the_reference():
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert set(re.findall(r"::: prune_gui\.(\w+)$", text, re.MULTILINE)) == set(prune_gui.__all__)
    of_training = set(re.findall(r"::: prune_gui\.training\.(\w+)", text))
    assert of_training == set(training.__all__) - {"Schedule"}
    stub = ast.parse((ROOT / "prune_gui" / "pruning" / "__init__.pyi").read_text(encoding="utf-8"))
    names = {alias.name for node in stub.body for alias in node.names}
    text = (ROOT / "docs" / "reference" / "modules.md").read_text(encoding="utf-8")
    found = set(re.findall(r"::: prune_gui\.pruning\.(\w+)", text))
    assert found == {name for name in names if not name.startswith("_")}


def test_the_keys_of_recipes_and_steps_are_in_the_reference(site):
    text = site.methods_page()
    for key in (*Recipe.model_fields, *Step.model_fields):
        assert f"\n| `{key}` | " in text


def test_the_guide_of_the_site_is_that_of_the_window():
    page = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert page == '--8<-- "resources/guide/guide.md"\n'
