"""Functions and commands as evaluators: what they get and return, and all that goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from textwrap import dedent

import psutil
import pytest
import torch
from polling import wait_until

from prune_gui import Recipe, export, open_checkpoint, resolve
from prune_gui.errors import Cancelled, EvaluationError
from prune_gui.evaluation.spec import EvaluatorSpec

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX"),
]

HALF = Recipe.from_yaml('steps: [{method: l1_unstructured, targets: ["a.weight"], amount: 0.5}]')
"""Prunes 1 to 6 of a.weight."""
SUM = "def evaluate(tensors): return float(sum(t.sum() for t in tensors.values()))\n"


def test_a_function_gets_the_pruned_tensors(evaluator, checkpoint):
    made = evaluator(SUM)
    assert made.evaluate(checkpoint).metrics == {"value": 88}
    pruned = made.evaluate(checkpoint, HALF)
    assert pruned.metrics == {"value": 88 - 21}
    assert (pruned.pruned, pruned.total, pruned.cached) == (6, 16, False)
    assert pruned.memory > 1_000_000


def test_the_file_is_loaded_once_and_sees_its_neighbours(evaluator, checkpoint, tmp_path):
    (tmp_path / "neighbour.py").write_text("LOADED = 0\n")
    made = evaluator("""
        import os, sys, neighbour
        assert __name__ == "own_eval" and sys.argv == [__file__]
        neighbour.LOADED += 1
        calls = 0
        def evaluate(sd):
            global calls
            calls += 1
            return {"pid": os.getpid(), "loaded": neighbour.LOADED, "calls": calls}
    """)
    first = made.evaluate(checkpoint).metrics
    second = made.evaluate(checkpoint, HALF).metrics
    assert second == {**first, "calls": 2}
    assert not list(tmp_path.glob("__pycache__/own_eval*"))


def test_a_function_may_keep_and_change_its_tensors(evaluator, checkpoint):
    made = evaluator("""
        dense = None
        def evaluate(sd):
            global dense
            dense = dense or sd
            kept = float(dense["a.weight"].sum())
            sd["a.weight"].add_(1000)
            return {"kept": kept, "changed": float(sd["a.weight"].min())}
    """)
    assert made.evaluate(checkpoint).metrics == {"kept": 78, "changed": 1001}
    assert made.evaluate(checkpoint, HALF).metrics == {"kept": 78 + 12_000, "changed": 1000}


@pytest.mark.parametrize("parameter", ["path", "model_path", "x: str", "x: 'Path'"])
def test_a_parameter_named_or_annotated_as_a_path_gets_one(evaluator, checkpoint, parameter):
    made = evaluator(f"""
        from pathlib import Path
        from safetensors import safe_open
        def evaluate({parameter}):
            [path] = locals().values()
            with safe_open(path, "pt") as file:
                print(path)
                total = float(file.get_tensor("a.weight").sum())
            return {{"total": total, "original": str(path) == {str(checkpoint)!r}}}
    """)
    assert made.evaluate(checkpoint).metrics == {"total": 78, "original": 1}
    assert made.evaluate(checkpoint, HALF).metrics == {"total": 57, "original": 0}


def test_split_is_passed_to_functions_that_take_it_and_pass_as_overrides_names(
    evaluator, checkpoint
):
    made = evaluator("def evaluate(path): return len(path)", pass_as="state_dict")
    assert made.evaluate(checkpoint).metrics == {"value": 2}
    made = evaluator("def evaluate(sd, split='x'): return {split: 1}")
    assert made.evaluate(checkpoint).metrics == {"final": 1}
    assert made.evaluate(checkpoint, split="search").metrics == {"search": 1}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "def evaluate(sd): raise ValueError('no data')",
            r"^ValueError: no data \(own_eval\.py, line 1\)$",
        ),
        (
            r"def evaluate(sd): raise ValueError('no data:\n\tno labels' + 500 * ', no text')",
            r"^ValueError: no data: no labels, no text.* … \(own_eval\.py, line 1\)$",
        ),
        ("def evaluate(sd): return 'good'", "returned a str: it must return a number"),
        ("def evaluate(sd): return {}", "returned a dict without numbers"),
        ("def evaluate(sd): return None", "returned a NoneType"),
        ("def evaluate(): return 1", "takes no argument"),
        ("def other(sd): return 1", "No function evaluate: the file has other"),
        ("import no_such_module", "^ModuleNotFoundError: No module named 'no_such_module'"),
        ("def evaluate(sd:", "^SyntaxError"),
        ("def evaluate(sd): import sys; sys.exit(3)", "^SystemExit: 3"),
        ("def evaluate(sd): raise MemoryError", r"^MemoryError \("),
        ("import os; os._exit(3)", "failed: it ended with exit code 3"),
        ("def evaluate(sd): import os; os._exit(3)", "failed: it ended with exit code 3"),
        ("def evaluate(sd): import os; os.kill(os.getpid(), 11)", "ended by signal 11"),
        ("def evaluate(sd): import os; os.closerange(3, 99); return 1", "Bad file|corrupted its"),
    ],
)
def test_a_failing_function_is_one_message(evaluator, checkpoint, source, message):
    with pytest.raises(EvaluationError, match=message) as caught:
        evaluator(source).evaluate(checkpoint)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("end", ["raise ValueError", "os._exit(1)"])
def test_a_function_that_failed_can_be_called_again(evaluator, checkpoint, end):
    made = evaluator(f"""
        import os
        def evaluate(sd):
            if not sd["a.weight"].all():
                {end}
            return 1
    """)
    for _ in range(2):
        with pytest.raises(EvaluationError):
            made.evaluate(checkpoint, HALF)
        assert made.evaluate(checkpoint).metrics == {"value": 1}


def test_a_process_that_ended_between_evaluations_is_started_again(evaluator, checkpoint):
    made = evaluator("import os\ndef evaluate(sd): return os.getpid()")
    process = psutil.Process(int(made.evaluate(checkpoint).metrics["value"]))
    process.kill()
    wait_until(lambda: not process.is_running())
    assert made.evaluate(checkpoint, HALF).metrics["value"] != process.pid


def test_output_of_any_kind_does_no_harm(evaluator, checkpoint):
    made = evaluator("""
        import os, sys
        os.write(1, b"\\xff\\x00{" * 1_000_000)
        def evaluate(sd):
            print("[31m1" * 1000, flush=True)
            os.write(2, b"\\xff" * 1_000_000)
            sys.stdout.close()
            os.close(1)
            return 1
    """)
    assert made.evaluate(checkpoint).metrics == {"value": 1}


def test_forked_children_do_no_harm_and_are_ended(evaluator, checkpoint, tmp_path):
    made = evaluator(f"""
        import os, subprocess, time
        def evaluate(sd):
            if not os.fork():
                return 5                            # answers in place of its parent
            if not os.fork():
                os.setsid()                         # leaves the process group
                if os.fork():
                    os._exit(0)
                open({str(tmp_path / "daemon")!r}, "w").write(str(os.getpid()))
                time.sleep(600)
            subprocess.Popen(["sleep", "600"])
            while not os.path.exists({str(tmp_path / "daemon")!r}):
                time.sleep(0.01)
            return 1
    """)
    assert made.evaluate(checkpoint).metrics == {"value": 1}
    time.sleep(0.1)
    daemon = psutil.Process(int((tmp_path / "daemon").read_text()))
    made.close()
    assert not daemon.is_running()


def test_a_child_that_holds_the_connection_does_not_hide_a_crash(evaluator, checkpoint):
    made = evaluator("""
        import os, time
        def evaluate(sd):
            if not os.fork():
                time.sleep(600)
            os._exit(7)
    """)
    with pytest.raises(EvaluationError, match="exit code 7"):
        made.evaluate(checkpoint)


@pytest.mark.parametrize("where", ["import time; time.sleep(600)", "def evaluate(sd): SLEEP()"])
def test_a_hanging_function_is_ended_after_its_time(evaluator, checkpoint, where):
    source = where.replace("SLEEP()", "import time; time.sleep(600)")
    made = evaluator(source, timeout_s=2.0)
    began = time.monotonic()
    with pytest.raises(EvaluationError, match="took longer than 2 s"):
        made.evaluate(checkpoint)
    assert time.monotonic() - began < 20


def test_cancel_ends_a_hanging_function_that_ignores_signals(evaluator, checkpoint):
    made = evaluator("""
        import signal, time
        for number in (1, 2, 15):
            signal.signal(number, signal.SIG_IGN)
        def evaluate(sd):
            time.sleep(600)
    """)
    stop = threading.Event()
    timer = threading.Timer(2.0, stop.set)
    timer.start()
    with pytest.raises(Cancelled):
        made.evaluate(checkpoint, cancel=stop)
    timer.join()


def test_a_function_that_takes_too_much_memory_is_ended(evaluator, checkpoint):
    made = evaluator(
        """
        import time
        def evaluate(sd):
            kept = []
            while True:
                kept.append(bytearray(b"x" * 50_000_000))
                time.sleep(0.02)
        """,
        memory_limit=600_000_000,
    )
    with pytest.raises(EvaluationError, match="of memory, more than its limit of 600 MB"):
        made.evaluate(checkpoint)


def test_a_function_that_leaks_memory_is_loaded_anew(evaluator, checkpoint):
    made = evaluator(
        """
        import time
        kept = []
        def evaluate(sd):
            kept.append(bytearray(b"x" * 250_000_000))
            time.sleep(0.7)
            return len(kept)
        """,
        memory_limit=800_000_000,
        cache="off",
    )
    values = [made.evaluate(checkpoint).metrics["value"] for _ in range(4)]
    assert values.count(1) >= 2


def test_status_shows_time_and_memory(evaluator, checkpoint):
    seen = []
    made = evaluator("import time\ndef evaluate(sd): time.sleep(1); return 1")
    made.evaluate(checkpoint, show=seen.append)
    assert len(seen) >= 2
    assert max(status.memory for status in seen) > 10_000_000


def test_another_interpreter_runs_the_function_without_modules_of_the_working_folder(
    evaluator, checkpoint, tmp_path, monkeypatch
):
    other = tmp_path / "other"
    other.mkdir()
    (other / "json.py").write_text("raise SystemExit")  # named like one of the standard library
    monkeypatch.chdir(other)
    python = tmp_path / "other-python"
    python.write_text(f'#!/bin/sh\necho banner\nOTHER=1 exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    source = "import os\ndef evaluate(sd): return int(os.environ['OTHER'])"
    assert evaluator(source, python=str(python)).evaluate(checkpoint).metrics == {"value": 1}


def test_tensors_that_a_state_dict_cannot_hold_are_refused(evaluator, tmp_path):
    path = tmp_path / "sparse.pt"
    sparse = torch.sparse_coo_tensor([[0], [1]], [2.0], (2, 2), check_invariants=True)
    torch.save({"a.weight": torch.ones(4), "b": sparse}, path)
    with pytest.raises(EvaluationError, match=r"b \(sparse\) cannot be handed over"):
        evaluator("def evaluate(sd): return 1").evaluate(path)
    source = "import torch\ndef evaluate(path): return torch.load(path)['a.weight'].sum()"
    assert evaluator(source).evaluate(path, HALF).metrics == {"value": 2}


def test_no_file_of_a_handover_is_left(evaluator, checkpoint, tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr("prune_gui.evaluation.handover.SHARED_MEMORY", tmp_path / "none")
    made = evaluator("import os\ndef evaluate(path): return os.path.exists(path)")
    assert made.evaluate(checkpoint, HALF).metrics == {"value": 1}
    [inner] = folder.iterdir()
    assert list(inner.iterdir()) == []
    assert inner.stat().st_mode & 0o077 == 0
    made.close()
    assert list(folder.iterdir()) == []


def test_tensors_are_handed_over_in_a_file_if_memory_is_short(
    evaluator, checkpoint, monkeypatch, tmp_path
):
    monkeypatch.setattr("prune_gui.evaluation.handover._fits_in_memory", lambda _: False)
    made = evaluator(SUM)  # which is what the user consented to, and so what runs
    (tmp_path / "own_eval.py").write_text("def evaluate(sd): return 5")
    assert made.evaluate(checkpoint, HALF).metrics == {"value": 67}
    assert not [
        path for path in Path("/dev/shm").glob("*evaluate*") if str(os.getpid()) in str(path)
    ]


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
        ("import sys; sys.exit('no data')", r"^no data \(the evaluator failed: it ended "),
        ("1 / 0", "^ZeroDivisionError: division by zero"),
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
    wait_until(note.exists)
    program.kill()
    program.wait()
    *pids, path = json.loads(note.read_text())
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), 10)
    wait_until(lambda: not Path(path).parents[1].exists(), 10)


def test_consent_to_a_command_is_consent_in_its_working_folder(tmp_path, monkeypatch):
    (tmp_path / "eval.py").write_text("def evaluate(state): return 1")
    texts = ("python -m eval {checkpoint}", f"{tmp_path / 'eval.py'}:evaluate")
    here = [EvaluatorSpec.parse(text).code_digest() for text in texts]
    monkeypatch.chdir(tmp_path)
    there = [EvaluatorSpec.parse(text).code_digest() for text in texts]
    assert [a == b for a, b in zip(here, there, strict=True)] == [False, True]
