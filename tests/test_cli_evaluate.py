"""`prune-gui evaluate`, `scan` and `search` as processes: output, consent, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from polling import wait_until
from safetensors.torch import save_file

from prune_gui import Recipe
from prune_gui.evaluation import PORTFOLIO

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX"),
]

EVALUATOR = """
    import json, sys, time
    print("loading")
    def evaluate(sd):
        print("evaluating")
        zeros = sum(int((t == 0).sum()) for t in sd.values())
        return {"kept": 1 - zeros / 128, "loss": zeros}
    if __name__ == "__main__":
        from safetensors.torch import load_file
        print(json.dumps(evaluate(load_file(sys.argv[1]))))
"""


@pytest.fixture
def folder(tmp_path):
    tensors = {
        "a.weight": torch.randn(8, 8),
        "b.weight": torch.randn(8, 8),
        "b.bias": torch.ones(8),
    }
    save_file(tensors, tmp_path / "net.safetensors")
    (tmp_path / "own.py").write_text(dedent(EVALUATOR))
    (tmp_path / "recipe.yaml").write_text(
        'steps: [{method: l1_unstructured, targets: ["a.weight"], amount: 0.5}]'
    )
    return tmp_path


def start(folder, *arguments):
    command = [sys.executable, "-m", "prune_gui", *map(str, arguments)]
    variables = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    return subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=variables,
    )  # fmt: skip


def run(folder, *arguments, code=0):
    process = start(folder, *arguments)
    output, errors = process.communicate(timeout=100)
    assert process.returncode == code, errors
    return output, errors


@pytest.mark.very_slow
def test_a_command_and_a_function_agree(folder):
    command = f"{sys.executable} own.py {{checkpoint}}"
    for text in (command, "own.py:evaluate"):
        plain, errors = run(folder, "evaluate", text, "net.safetensors", "--yes")
        assert errors == ""
        assert plain.splitlines()[:3] == [
            "net.safetensors: 0 of 136 pruned (0.0%)", "Metric  Value", "kept        1",
        ]  # fmt: skip
        arguments = ("evaluate", text, "net.safetensors", "--recipe", "recipe.yaml", "--json")
        output, errors = run(folder, *arguments)
        printed = json.loads(output)
        assert errors == ""
        assert printed["metrics"] == {"kept": 0.75, "loss": 32}
        assert (printed["metric"], printed["pruned"], printed["cached"]) == (None, 32, False)
        output, _ = run(folder, *arguments, "--metric", "loss")
        again = json.loads(output)
        assert (again["metric"], again["value"], again["better"]) == ("loss", 32, "lower")
        assert again["cached"] is True


def test_consent_is_asked_once_for_each_content(folder):
    arguments = ("evaluate", "own.py:evaluate", "net.safetensors")
    output, errors = run(folder, *arguments, code=1)
    assert output == ""
    assert "with all your rights" in errors
    assert "add --yes" in errors
    assert errors.count("\n") == 1
    run(folder, *arguments, "--yes")
    run(folder, *arguments, "--fresh")
    (folder / "own.py").write_text(dedent(EVALUATOR) + "# changed\n")
    assert "add --yes" in run(folder, *arguments, code=1)[1]


def test_consent_is_asked_for_on_a_terminal(folder):
    import pty

    for answer, code in (("n", 1), ("y", 0), ("", 0)):
        pid, terminal = pty.fork()
        if not pid:
            os.chdir(folder)
            os.environ["XDG_DATA_HOME"] = str(folder / "data")
            arguments = ("-m", "prune_gui", "evaluate", "own.py:evaluate", "net.safetensors")
            os.execv(sys.executable, [sys.executable, *arguments])
        shown = b""
        while True:
            try:
                shown += os.read(terminal, 1000)
            except OSError:
                break
            if answer and b"Do you trust it?" in shown and b"[y/N]" in shown:
                os.write(terminal, answer.encode() + b"\n")
                answer = ""
        os.close(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, shown
        assert (b"Do you trust it?" in shown) == (answer == "" and b"[y/N]" in shown)
    assert b"[y/N]" not in shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("own.py", "is not an evaluator"),
        ("none.py:evaluate", "none.py cannot be read: No such file"),
        ("no-such-program {checkpoint}", "'no-such-program' does not exist"),
        ("python 'own.py {checkpoint}", "cannot be split: No closing quotation"),
        ("own.py:none", "the file has evaluate"),
        ("false {checkpoint}", "it ended with exit code 1"),
        ("echo good {checkpoint}", "printed no result"),
    ],
)
def test_an_evaluator_that_cannot_be_run_is_one_line(folder, text, message):
    output, errors = run(folder, "evaluate", text, "net.safetensors", "--yes", code=1)
    assert output == ""
    assert message in errors
    assert errors.count("\n") == 1


def test_a_scan_is_a_table(folder):
    arguments = ("scan", "own.py:evaluate", "net.safetensors", "--metric", "kept", "--yes")
    output, errors = run(folder, *arguments, "--amounts", "25%, 0.5")
    assert errors == ""
    assert output.splitlines() == [
        "kept (higher is better)",
        "Pruned     0.25   0.5",
        "nothing       1     1",
        "a.weight  0.875  0.75",
        "b.weight  0.875  0.75",
    ]
    printed = json.loads(run(folder, *arguments, "--amounts", "50%", "--json")[0])
    assert printed["complete"] is True
    assert [trial["value"] for trial in printed["trials"]] == [0.75, 0.75]
    assert all(trial["evaluation"]["cached"] for trial in printed["trials"])
    run(folder, *arguments, "--amounts", "8", code=2)


def test_several_metrics_without_a_choice_are_named(folder):
    for command in (("scan",), ("search", "--amount", "50%")):
        arguments = (*command, "own.py:evaluate", "net.safetensors", "--yes")
        errors = run(folder, *arguments, code=1)[1]
        assert "Choose one of them (--metric NAME): kept, loss" in errors


def test_a_search_writes_an_ordinary_recipe(folder):
    arguments = ("search", "own.py:evaluate", "net.safetensors", "--metric", "kept", "--yes")
    output, errors = run(folder, *arguments, "--at-least", "70%", "-o", "found.yaml")
    assert errors == ""
    assert output.splitlines()[-1] == "Wrote found.yaml"
    text = (folder / "found.yaml").read_text()
    assert "# Ranking" in text
    recipe = Recipe.from_yaml(text)
    assert recipe.steps[0].method.amount == 0.3
    run(folder, "apply", "found.yaml", "net.safetensors", "-o", "out.safetensors")
    assert (
        "already exists"
        in run(folder, *arguments, "--amount", "0.5", "-o", "found.yaml", code=1)[1]
    )
    before = (folder / "net.safetensors").read_bytes()
    for out in ("net.safetensors", "own.py"):
        options = ("--amount", "0.5", "-o", out, "--overwrite")
        assert "must end in one of .yaml, .yml" in run(folder, *arguments, *options, code=1)[1]
    assert (folder / "net.safetensors").read_bytes() == before
    printed = json.loads(run(folder, *arguments, "--at-least", "70%", "--json")[0])
    assert printed["recipe"]["steps"][0]["amount"] == 0.3
    assert printed["final"]["metrics"]["kept"] >= printed["limit"] == 0.7
    assert all(trial["evaluation"]["cached"] for trial in printed["trials"])
    assert run(folder, *arguments, code=2)[0] == ""


@pytest.mark.parametrize("command", ["scan", "search"])
def test_ctrl_c_keeps_what_was_found_and_the_next_run_continues(folder, command):
    script = folder / "slow.py"
    script.write_text(
        dedent("""
        import pathlib, time
        calls = 0
        def evaluate(sd):
            global calls
            calls += 1
            with open("calls", "a") as file:
                file.write("x")
            if calls == 4 and not pathlib.Path("second").exists():
                time.sleep(600)
            return float(sum(int((t != 0).sum()) for t in sd.values()))
        """)
    )
    options = ("--amounts", "20%,40%")
    if command == "search":
        options = ("--amount", "50%", "-o", "best.yaml")
    arguments = (command, "slow.py:evaluate", "net.safetensors", "--yes", "--json", *options)
    process = start(folder, *arguments)
    calls = folder / "calls"
    wait_until(lambda: calls.exists() and calls.read_text() == "xxxx")
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    told = "prune-gui: Interrupted after 2 of 4 evaluations, which are kept."
    if command == "search":
        told = told.replace(" of 4", "") + (
            " To go on, add --overwrite: best.yaml has the best recipe so far."
        )
        arguments += ("--overwrite",)
    assert errors == f"{told}\n"
    printed = json.loads(output)
    assert (printed["complete"], len(printed["trials"])) == (False, 2)
    assert printed["dense"]["metrics"] == {"value": 136}
    (folder / "second").touch()
    printed = json.loads(run(folder, *arguments)[0])
    count = 4 if command == "scan" else len(PORTFOLIO)
    assert (printed["complete"], len(printed["trials"])) == (True, count)
    assert calls.read_text() == "x" * (count + 2)
    assert not list(Path("/dev/shm").glob(f".*{process.pid}-*"))
