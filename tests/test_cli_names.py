"""What commands print of names that may hold anything: no forged lines, no orders to a terminal."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from safetensors.torch import save_file

from prune_gui.cli import program
from prune_gui.cli.printing import print_json, say

NAMES = (
    "a\nWarning: forged",
    "\x1b[31mred",
    "\x9b2J",
    "\u202egpj",
    "\u2066x",
    "\u3164",
    "<b>x</b>",
    "%s {name}",
    "\r\x08over",
)
FORGED = ("Warning: forged", "forged")


@pytest.fixture
def run(monkeypatch, capsys):
    """Return what calls the program here, and returns its exit code and what it printed."""
    monkeypatch.setattr("prune_gui.session.start_log", lambda: None)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["prune-gui", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            program.run()
        out, err = capsys.readouterr()
        for text in (out, err):
            assert text.replace("\n", "").isprintable()
            assert "\u3164" not in text or "--json" in arguments
            assert not any(line.startswith(FORGED) for line in text.split("\n"))
        return ended.value.code or 0, out, err

    return call


@pytest.fixture
def hostile(tmp_path):
    """A file in which everything has such a name."""
    path = tmp_path / "m\nWarning: forged\x1b[2J\u202e.safetensors"
    tensors = {f"{name}.{inner}": torch.ones(2, 3) for name in NAMES for inner in NAMES[:2]}
    metadata = {name: f"{name}\u2028Warning: forged" for name in NAMES}
    save_file(tensors, path, metadata)
    return path


def test_inspect_forges_no_line(run, hostile):
    code, out, _ = run("inspect", hostile)
    assert code == 0
    assert r"\x1b[31mred" in out
    assert "    Warning: forged" in out


def test_json_is_the_same_value_without_orders_to_a_terminal(run, hostile):
    code, out, _ = run("inspect", "--json", hostile)
    said = json.loads(out)
    assert code == 0
    assert said["path"] == str(hostile)
    assert {tensor["name"].rpartition(".")[0] for tensor in said["tensors"]} >= set(NAMES[2:])
    assert said["metadata"][NAMES[0]] == f"{NAMES[0]}\u2028Warning: forged"


def test_diff_forges_no_line(run, hostile, tmp_path):
    other = tmp_path / "other.safetensors"
    save_file({NAMES[0]: torch.zeros(2, 3), NAMES[1]: torch.ones(1)}, other, {NAMES[1]: NAMES[0]})
    code, out, _ = run("diff", hostile, other)
    assert code == 0
    assert "only in A" in out


def test_apply_forges_no_line(run, hostile, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text('steps: [{method: l1_unstructured, targets: ["*"], amount: 0.5}]')
    out = tmp_path / "out\nWarning: forged.safetensors"
    code, said, _ = run("apply", recipe, hostile, "-o", out)
    assert code == 0
    assert r"out\nWarning: forged.safetensors" in said


@pytest.mark.parametrize("name", NAMES)
def test_an_error_is_one_line_of_a_few_hundred_characters(run, tmp_path, name):
    code, out, err = run("inspect", tmp_path / f"{name}{'x' * 5000}")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert len(err) < 700


def test_a_recipe_with_any_text_in_it_is_refused_in_one_line(run, hostile, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(json.dumps({"steps": [{"method": NAMES[1] + "y" * 5000, "targets": ["*"]}]}))
    code, out, err = run("apply", recipe, hostile, "-o", tmp_path / "out.pt")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert len(err) < 700


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_argument_is_repeated_as_plain_text(run, name):
    code, out, err = run("inspect", "a", name)
    assert (code, out) == (2, "")
    assert "unexpected extra argument" in err


def test_one_line_stays_one(capsys):
    say("a\nb\x1b")
    say()
    assert capsys.readouterr().out == "a\\nb\\x1b\n\n"


def test_a_name_that_is_no_text_is_escaped_in_json(capsys):
    print_json({"path": "\udc80\U000e0001\x7f中"})
    out = capsys.readouterr().out
    assert out.isascii() or "中" in out
    assert json.loads(out) == {"path": "\udc80\U000e0001\x7f中"}
