"""Commands as evaluators: placeholders, results, failures, and the end of all their processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import psutil
import pytest
import torch

from prune_gui import Recipe, export, open_checkpoint, resolve
from prune_gui.errors import EvaluationError
from prune_gui.evaluation.spec import EvaluatorSpec

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX"),
]

HALF = Recipe.from_yaml('steps: [{method: l1_unstructured, targets: ["a.weight"], amount: 0.5}]')
TOTAL = """
    import sys
    from safetensors.torch import load_file
    print("total", file=sys.stderr)
    print(float(load_file(sys.argv[1])["a.weight"].sum()))
"""


def test_a_command_gets_the_pruned_file(evaluator, checkpoint):
    made = evaluator(TOTAL, "python FILE {checkpoint}")
    assert made.evaluate(checkpoint).metrics == {"value": 78}
    pruned = made.evaluate(checkpoint, HALF)
    assert pruned.metrics == {"value": 57}
    assert (pruned.pruned, pruned.total) == (6, 16)
    assert pruned.memory > 1_000_000


def test_the_file_has_the_format_and_name_of_the_input(evaluator, checkpoint, tmp_path):
    path = tmp_path / "trained.ckpt"
    torch.save({"epoch": 3, "model": {"a.weight": torch.arange(1.0, 13)}}, path)
    made = evaluator(
        """
        import json, sys, torch
        loaded = torch.load(sys.argv[1], weights_only=True)
        assert sys.argv[1].endswith("/trained.ckpt")
        total = float(loaded["model"]["a.weight"].sum())
        print(json.dumps({"epoch": loaded["epoch"], "sum": total}))
        """,
        "python FILE {checkpoint}",
    )
    assert made.evaluate(path, HALF).metrics == {"epoch": 3, "sum": 57}


def test_placeholders_in_the_name_of_the_file_are_not_replaced(evaluator, checkpoint):
    path = checkpoint.rename(checkpoint.with_name("a {split} {output}.safetensors"))
    made = evaluator(TOTAL, "python FILE {checkpoint} {split}")
    assert made.evaluate(path, HALF).metrics == {"value": 57}


def test_a_folder_holds_the_small_files_of_a_model(evaluator, checkpoint):
    checkpoint.with_name("config.json").write_text('{"model_type": "x"}')
    checkpoint.with_name("vocab.txt").write_text("a\n")
    made = evaluator(
        """
        import json, os, sys
        assert json.load(open(sys.argv[1] + "/config.json")) == {"model_type": "x"}
        print(len(os.listdir(sys.argv[1])))
        """,
        "python FILE {folder}",
    )
    assert made.evaluate(checkpoint, HALF).metrics == {"value": 3}


def test_shards_are_a_folder(evaluator, checkpoint, tmp_path):
    folder = tmp_path / "sharded"
    with open_checkpoint(checkpoint) as opened:
        export(resolve(Recipe(), opened), folder, shard_size=50)
    (folder / "config.json").write_text("{}")
    made = evaluator(
        """
        import json, pathlib, sys
        from safetensors.torch import load_file
        folder = pathlib.Path(sys.argv[1])
        assert (folder / "config.json").read_text() == "{}"
        parts = [load_file(path) for path in folder.glob("*.safetensors")]
        total = float(sum(t.sum() for part in parts for t in part.values()))
        print(json.dumps({"parts": len(parts), "sum": total}))
        """,
        "python FILE {checkpoint}",
    )
    assert made.evaluate(folder).metrics == {"parts": 2, "sum": 88}
    assert made.evaluate(folder, HALF).metrics == {"parts": 2, "sum": 67}


def test_results_of_lm_eval_are_read_from_its_folder(evaluator, checkpoint):
    results = {"results": {"arc": {"alias": "arc", "acc,none": 0.5, "acc_stderr,none": 0.1}}}
    made = evaluator(
        f"""
        import json, os, sys
        print("|arc|acc|0.1|")
        folder = sys.argv[2] + "/model"
        os.makedirs(folder)
        json.dump({results}, open(folder + "/results_2026.json", "w"))
        """,
        "python FILE {checkpoint} {output}",
    )
    assert made.evaluate(checkpoint).metrics == {"arc.acc": 0.5}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import sys; sys.exit('no data')", "failed: it ended with exit code 1. no data"),
        ("1 / 0", "exit code 1. ZeroDivisionError: division by zero"),
        ("print('accuracy: good')", "printed no result"),
        ("", "printed no result"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
    ],
)
def test_a_failing_command_is_one_message(evaluator, checkpoint, source, message):
    with pytest.raises(EvaluationError, match=message):
        evaluator(source, "python FILE {checkpoint}").evaluate(checkpoint)


def test_endless_output_is_bounded(evaluator, checkpoint):
    made = evaluator(
        """
        import sys
        for _ in range(400):
            sys.stdout.write("x" * 99_999 + "\\n")
            sys.stderr.write("y" * 99_999 + "\\n")
        print(7)
        """,
        "python FILE {checkpoint}",
    )
    assert made.evaluate(checkpoint).metrics == {"value": 7}


PROGRAM = """
import sys
from pathlib import Path
from prune_gui import Recipe
from prune_gui.evaluation import Evaluator
evaluator = Evaluator(sys.argv[1], cache="off")
recipe = Recipe.from_yaml('steps: [{method: l1_unstructured, targets: ["*"], amount: 0.5}]')
evaluator.evaluate(sys.argv[2], recipe)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="names the processes by /proc")
@pytest.mark.parametrize("kind", ["command", "function"])
def test_a_killed_program_leaves_no_process_and_no_file(checkpoint, tmp_path, kind):
    script, note = tmp_path / "own_eval.py", tmp_path / "note"
    script.write_text(
        dedent(f"""
        import json, os, subprocess, sys, time
        def evaluate(path):
            child = subprocess.Popen(["sleep", "600"], start_new_session=True)
            with open({str(note)!r} + "~", "w") as file:
                json.dump([os.getpid(), child.pid, path], file)
            os.rename({str(note)!r} + "~", {str(note)!r})
            time.sleep(600)
        if __name__ == "__main__":
            evaluate(sys.argv[1])
        """)
    )
    text = f"{script}:evaluate" if kind == "function" else f"python {script} {{checkpoint}}"
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, text, str(checkpoint)])
    while not note.exists():
        assert program.poll() is None
        time.sleep(0.05)
    program.kill()
    program.wait()
    *pids, path = json.loads(note.read_text())
    deadline = time.monotonic() + 10
    while any(map(psutil.pid_exists, pids)) or Path(path).parents[1].exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_consent_to_a_command_is_consent_in_its_working_folder(tmp_path, monkeypatch):
    (tmp_path / "eval.py").write_text("def evaluate(state): return 1")
    texts = ("python -m eval {checkpoint}", f"{tmp_path / 'eval.py'}:evaluate")
    here = [EvaluatorSpec.parse(text).code_digest() for text in texts]
    monkeypatch.chdir(tmp_path)
    there = [EvaluatorSpec.parse(text).code_digest() for text in texts]
    assert [a == b for a, b in zip(here, there, strict=True)] == [False, True]
