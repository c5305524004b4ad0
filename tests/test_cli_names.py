"""Output of names with arbitrary characters: no forged lines, no terminal control sequences."""

from __future__ import annotations

import json

import pytest
import torch
from command_line import prune_gui
from safetensors.torch import save_file

from prune_gui.cli.printing import print_line

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


def run(*arguments):
    """Run the program, and return its exit code, output and error output."""
    result = prune_gui(*arguments)
    for text in (result.stdout, result.stderr):
        assert text.replace("\n", "").isprintable()
        assert "\u3164" not in text or "--json" in arguments
        assert not any(line.startswith(FORGED) for line in text.split("\n"))
    return result.returncode, result.stdout, result.stderr


@pytest.fixture
def hostile(tmp_path):
    """Return a checkpoint whose file name, tensor names and metadata are hostile."""
    path = tmp_path / "m\nWarning: forged\x1b[2J\u202e.safetensors"
    tensors = {f"{name}.{inner}": torch.ones(2, 3) for name in NAMES for inner in NAMES[:2]}
    metadata = {name: f"{name}\u2028Warning: forged" for name in NAMES}
    save_file(tensors, path, metadata)
    return path


def test_json_keeps_the_names_and_prints_no_control_sequences(hostile):
    code, out, _ = run("inspect", "--json", hostile)
    printed = json.loads(out)
    assert code == 0
    assert printed["path"] == str(hostile)
    assert {tensor["name"].rpartition(".")[0] for tensor in printed["tensors"]} >= set(NAMES[2:])
    assert printed["metadata"][NAMES[0]] == f"{NAMES[0]}\u2028Warning: forged"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("inspect {hostile}", [r"\x1b[31mred", "    Warning: forged"]),
        ("diff {hostile} {other}", ["only in A"]),
        ("apply {recipe} {hostile} -o {out}", [r"out\nWarning: forged.safetensors"]),
    ],
)
def test_no_command_prints_a_forged_line(hostile, tmp_path, command, shown):
    files = {"hostile": hostile, "other": tmp_path / "other.safetensors", "recipe": tmp_path / "r"}
    files["out"] = tmp_path / "out\nWarning: forged.safetensors"
    save_file(
        {NAMES[0]: torch.zeros(2, 3), NAMES[1]: torch.ones(1)}, files["other"], {NAMES[1]: NAMES[0]}
    )
    files["recipe"].write_text('steps: [{method: l1_unstructured, targets: ["*"], amount: 0.5}]')
    code, out, _ = run(*(word.format(**files) for word in command.split()))
    assert code == 0
    assert all(text in out for text in shown)


@pytest.mark.parametrize("name", NAMES)
def test_an_error_is_one_line_of_less_than_700_characters(tmp_path, name):
    code, out, err = run("inspect", tmp_path / f"{name}{'x' * 5000}")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert len(err) < 700


def test_a_recipe_with_a_hostile_method_name_is_refused_in_one_line(hostile, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(json.dumps({"steps": [{"method": NAMES[1] + "y" * 5000, "targets": ["*"]}]}))
    code, out, err = run("apply", recipe, hostile, "-o", tmp_path / "out.pt")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert len(err) < 700


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_argument_is_printed_as_plain_text(name):
    code, out, err = run("inspect", "a", name)
    assert (code, out) == (2, "")
    assert "unexpected extra argument" in err


def test_say_prints_one_line(capsys):
    print_line("a\nb\x1b")
    print_line()
    assert capsys.readouterr().out == "a\\nb\\x1b\n\n"
