"""Random user actions cause no fault and leave the window consistent with its session.

A failure names its seed and the last actions. MONKEY_SEED repeats them: the choices are the same,
but the timing of the engine may differ. MONKEY_ACTS sets the number of actions of the slow test.
"""

import logging
import os
import random
import shutil
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from monkey import Monkey
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from safetensors.torch import save_file

import prune_gui
from prune_gui.errors import StepError
from prune_gui.gui.runtime.preferences import Preferences
from prune_gui.gui.widgets.theme import Theme
from prune_gui.gui.window import MainWindow
from prune_gui.gui.workbench import Workbench
from prune_gui.session import Settings

CHECK_INTERVAL = 20
"""Number of actions between two checks of the invariants."""
UNDONE = 5
"""Number of changes that each check undoes and redoes."""
TIMEOUT_MS = 120_000


@pytest.fixture
def window(qtbot, monkeypatch, tmp_path) -> Iterator[MainWindow]:
    for name in ("CONFIG", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    workbench = Workbench()
    theme = Theme(QApplication.instance(), "light")
    window = MainWindow(workbench, Preferences(Settings(), theme), tmp_path / "prune-gui.log")
    window.show()
    [history] = [one for one in window.docks.actions if one.text() == "History"]
    history.trigger()  # hidden at first; the keyboard stays with the window
    qtbot.waitExposed(window)
    workbench.warm_up()
    yield window
    workbench.close()
    window.recovery.stop()
    window.hide()
    window.views.dismantle()
    for qobject in (window, theme, workbench):
        qobject.deleteLater()


@pytest.fixture
def files(tmp_path, demo_checkpoint, nearest_mean, plugin_file) -> list[Path]:
    """Return checkpoints of several formats, recipes, a plug-in, and invalid files."""
    folder = tmp_path / "files"
    folder.mkdir()
    demo = Path(shutil.copy(demo_checkpoint, folder))
    recipe = Path(shutil.copy(demo_checkpoint.with_suffix(".yaml"), folder))
    draw = torch.Generator().manual_seed(0)
    small = {
        "fc.weight": torch.randn(8, 6, generator=draw),
        "conv.weight": torch.randn(4, 3, 5, 2, generator=draw).bfloat16(),
        "fc.bias": torch.arange(8.0) - 3,
        "scale": torch.tensor(0.5),
        "steps": torch.tensor(7),
        "odd.weight": torch.tensor([[1.0, float("nan")], [float("inf"), 2.0]]),
        "empty.weight": torch.zeros(0, 4),
    }
    torch.save({"model": small, "ema": {"fc.weight": torch.ones(3, 3)}}, folder / "nested.pt")
    save_file(small, folder / "small.safetensors")
    (folder / "broken.safetensors").write_bytes(b"\xff" * 100)
    (folder / "broken.yaml").write_text("steps: [{method: nothing}]")
    (folder / "strange.yaml").write_text("steps:\n- {method: l1_unstructured, targets: [gone]}\n")
    with prune_gui.open_checkpoint(demo) as opened:
        resolution = prune_gui.resolve(prune_gui.Recipe.load(recipe), opened)
        prune_gui.export(resolution, folder / "pruned.safetensors")
    return [
        demo,
        recipe,
        nearest_mean,
        *(path for path in folder.iterdir() if path not in (demo, recipe)),
    ]


@pytest.fixture
def run_monkey(window, qtbot, tmp_path, caplog) -> Callable[..., None]:
    """Return a function that performs random actions on the window and checks the invariants."""
    folder = tmp_path / "saved"
    folder.mkdir()

    def run(files: list[Path], acts: int, seed: int) -> None:
        monkey = Monkey(window, seed, sorted(files[1:]), folder)
        with monkey.answers(), qtbot.captureExceptions() as faults:
            window.commands.open_path(files[0])
            qtbot.waitUntil(lambda: window.workbench.resolved is not None, timeout=TIMEOUT_MS)
            try:
                for number in range(acts):
                    monkey.act()
                    no_fault(faults)
                    if number % CHECK_INTERVAL == CHECK_INTERVAL - 1:
                        wait_until_idle(window, qtbot)
                        monkey.close_boxes()
                        check(window, qtbot)
                        no_fault(faults)
                    errors = [r for r in caplog.records if r.levelno >= logging.ERROR]
                    assert not errors, [record.getMessage() for record in errors]
            except BaseException as error:
                trail = "\n  ".join(monkey.trail)
                error.add_note(f"after act {number} of seed {seed}:\n  {trail}")
                raise
            wait_until_idle(window, qtbot)
            monkey.close_boxes()

    return run


def no_fault(faults: list) -> None:
    assert not faults, "".join(traceback.format_exception(faults[0][1]))


def wait_until_idle(window: MainWindow, qtbot) -> None:
    """Wait until all jobs are finished or cancelled, and the session is resolved."""
    bench = window.workbench

    def idle() -> None:
        timers = (timer for timer in window.findChildren(QTimer) if timer.isSingleShot())
        active = [timer for timer in timers if timer.isActive() and timer.interval() < 2_000]
        waiting = list(bench.bridge._waiting)
        assert not waiting, f"{waiting} wait for {bench.bridge._engine._running}"
        assert not active, [(timer.parent(), timer.interval()) for timer in active]

    def idle_and_resolved() -> None:
        idle()
        assert is_resolved(bench)

    qtbot.wait(1)
    qtbot.waitUntil(idle, timeout=TIMEOUT_MS)
    if not is_resolved(bench):
        bench.resolve()
        qtbot.waitUntil(idle_and_resolved, timeout=TIMEOUT_MS)


def is_resolved(bench: Workbench) -> bool:
    resolved, session = bench.resolved, bench.session
    return (
        resolved is not None
        and session is not None
        and resolved.recipe is session.recipe
        and resolved.draft == bench.draft.current
    )


def check(window: MainWindow, qtbot) -> None:
    """Check that the window shows the resolution of its recipe, and that undo and redo work."""
    bench = window.workbench
    session, resolved = bench.session, bench.resolved
    assert session is not None
    assert resolved is not None
    assert window.stack.list.model().rowCount() == len(session.steps)
    assert window.stack.list.model()._steps == session.steps
    entries = window.history.entry_list
    assert entries.count() == len(session.history.edits)
    # The current row is only where the keyboard is; the state of the stack is in bold.
    bold = [row for row in range(entries.count()) if entries.item(row).font().bold()]
    assert bold == [session.history.current_edit]
    assert window.isWindowModified() == session.unsaved
    assert bench.chosen is None or bench.chosen in session.checkpoint.tensors
    assert window.draft.preview.isChecked() or bench.draft.current is None
    assert counts_resolved_anew(session) == (resolved.resolution.counts, str(resolved.error or ""))
    check_form(window)
    history = session.history
    undone = [history.at(history.position - by) for by in range(min(UNDONE, history.position) + 1)]
    for way, act in ((undone[1:], session.undo), (undone[-2::-1], session.redo)):
        for expected in way:
            bench.edit(lambda _, act=act: act())
            assert (session.recipe, session.draft) == (expected.recipe, expected.draft)
            assert window.stack.list.model()._steps == session.steps
            check_form(window)
    assert session.history == history
    wait_until_idle(window, qtbot)


def check_form(window: MainWindow) -> None:
    """Check that the form shows the draft of the session."""
    form, draft = window.draft, window.workbench.session.draft
    assert form.method.currentData() == draft.method
    assert form.form.values == draft.values
    assert form.targets.typed == draft.targets
    assert form.targets.following.isChecked() == draft.follows
    assert form.preview.isChecked() == draft.previewed
    assert form.editing == (draft.editing is not None)


def counts_resolved_anew(session) -> tuple[dict[str, tuple[int, int]], str]:
    """Resolve the steps of a session anew, up to the first that fails; return counts and error."""
    path, state = session.checkpoint.path, session.checkpoint.state_dict
    with prune_gui.open_checkpoint(path, state or None) as checkpoint:
        try:
            return dict(prune_gui.resolve(session.recipe, checkpoint).counts), ""
        except StepError as error:
            before = session.recipe.with_steps(session.steps[: error.step - 1])
            return dict(prune_gui.resolve(before, checkpoint).counts), str(error)


def seed_of_run() -> int:
    """Return the seed in MONKEY_SEED if it is set, else a random one; in CI, 1."""
    chosen = 1 if "CI" in os.environ else random.randrange(10**6)
    return int(os.environ.get("MONKEY_SEED", chosen))


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_random_actions_leave_the_window_consistent(run_monkey, files):
    run_monkey(files, acts=int(os.environ.get("MONKEY_ACTS", "600")), seed=seed_of_run())


@pytest.mark.real
@pytest.mark.timeout(600)
def test_random_actions_on_a_real_checkpoint_leave_the_window_consistent(
    run_monkey, files, real_models
):
    minilm = real_models / "minilm" / "model.safetensors"
    three_of_four = [minilm] * 3 * len(files)
    run_monkey([*three_of_four, *files], acts=400, seed=seed_of_run())
