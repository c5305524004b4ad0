"""A window with a shown dock and an evaluator that starts at once."""

from __future__ import annotations

from textwrap import dedent

import psutil
import pytest

from prune_gui.evaluation.spec import EvaluatorChoice

SOURCE = """
    import array, json, os, struct, sys, time
    from pathlib import Path

    def zeros(path):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            content = file.read()
        found = header["features.conv2.weight"]["data_offsets"]
        values = array.array("f", content[slice(*found)])
        return values.count(0.0) / len(values)

    def evaluate(path):
        share = zeros(path)
        print("looking at the weights", file=sys.stderr)
        if share > 0.95:
            os._exit(3)
        return {"kept": 1 - share, "loss": 2 + share}

    def overflows(path):
        return {"loss": float("inf" if zeros(path) else "nan")}

    def hangs(path):
        if zeros(path):
            os.fork()
            time.sleep(60)
        return 1.0
"""


@pytest.fixture
def code(tmp_path):
    """Return the file of the evaluators."""
    path = tmp_path / "own_eval.py"
    path.write_text(dedent(SOURCE))
    return path


@pytest.fixture
def panel(demo_window, qtbot):
    """Return the shown dock, without an evaluator; no process of an evaluator is left after it."""
    before = set(psutil.Process().children(recursive=True))
    demo_window.show_evaluation()
    made = demo_window.evaluate
    qtbot.waitUntil(lambda: made.evaluations is not None)
    made.evaluations.choose(None)
    yield made
    demo_window.workbench.bridge.close()
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [each for each in left if each.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def choose(panel, code, answer_box):
    """Return a function that chooses a function of the file, and answers the question with Run."""
    asked = answer_box("Run")

    def by_name(function="evaluate", **options):
        panel.evaluations.choose(EvaluatorChoice(text=f"{code}:{function}", **options))
        return asked

    return by_name


@pytest.fixture
def run(panel, qtbot):
    """Return a function that clicks the button of a page, and waits for the end of its run."""

    def click_and_wait(tab):
        panel.tabs.setCurrentWidget(tab)
        tab.run.click()
        qtbot.waitUntil(lambda: panel.evaluations.run is None, timeout=60_000)

    return click_and_wait
