"""Functions as evaluators: what they get, what they return, and everything that goes wrong."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import torch

from prune_gui import Recipe
from prune_gui.errors import Cancelled, EvaluationError

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
        ("def evaluate(sd): raise ValueError('no data')", "raised ValueError: no data"),
        ("def evaluate(sd): return 'good'", "returned a str: it must return a number"),
        ("def evaluate(sd): return {}", "returned a dict without numbers"),
        ("def evaluate(sd): return None", "returned a NoneType"),
        ("def evaluate(): return 1", "takes no argument"),
        ("def other(sd): return 1", "has the functions other"),
        ("import no_such_module", "raised ModuleNotFoundError: No module named 'no_such_module'"),
        ("def evaluate(sd:", "raised SyntaxError"),
        ("def evaluate(sd): import sys; sys.exit(3)", "raised SystemExit: 3"),
        ("def evaluate(sd): raise MemoryError", r"raised MemoryError\.$"),
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
    while process.is_running():
        time.sleep(0.05)
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


def test_the_standard_library_is_not_shadowed_by_the_working_folder(
    evaluator, checkpoint, tmp_path, monkeypatch
):
    other = tmp_path / "other"
    other.mkdir()
    (other / "json.py").write_text("raise SystemExit")
    monkeypatch.chdir(other)
    assert evaluator(SUM).evaluate(checkpoint).metrics == {"value": 88}


def test_another_interpreter_runs_the_function(evaluator, checkpoint, tmp_path):
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


def test_what_the_user_consented_to_is_what_runs(evaluator, checkpoint, tmp_path):
    made = evaluator(SUM)
    (tmp_path / "own_eval.py").write_text("def evaluate(sd): return 5")
    assert made.evaluate(checkpoint).metrics == {"value": 88}


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


def test_tensors_are_handed_over_in_a_file_if_memory_is_short(evaluator, checkpoint, monkeypatch):
    monkeypatch.setattr("prune_gui.evaluation.handover._fits_in_memory", lambda _: False)
    assert evaluator(SUM).evaluate(checkpoint, HALF).metrics == {"value": 67}
    assert not [
        path for path in Path("/dev/shm").glob("*evaluate*") if str(os.getpid()) in str(path)
    ]
