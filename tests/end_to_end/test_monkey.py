"""Whatever is done to the window, in whatever order: no fault, and nothing that contradicts.

A failure names its seed, and what was done last. MONKEY_SEED repeats it: the choices are the same,
though how far the engine has come by then may differ. MONKEY_ACTS sets how long the long run is.
"""

from __future__ import annotations

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

EVERY = 20
"""Acts between two looks at the invariants."""
PATIENCE_MS = 120_000


@pytest.fixture
def window(qtbot, monkeypatch, tmp_path) -> Iterator[MainWindow]:
    for name in ("CONFIG", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    workbench = Workbench()
    theme = Theme(QApplication.instance(), "light")
    made = MainWindow(workbench, Preferences(Settings(), theme), tmp_path / "prune-gui.log")
    made.show()
    made._docks[-1].show()  # the history, which is not seen at first
    qtbot.waitExposed(made)
    workbench.warm_up()
    yield made
    workbench.close()
    made.recovery.stop()
    made.hide()
    made.dismantle()
    for left in (made, theme, workbench):
        left.deleteLater()


@pytest.fixture
def files(tmp_path, demo_checkpoint, nearest_mean, plugin_file) -> list[Path]:
    """Return checkpoints of several kinds, recipes, a plug-in, and what is neither."""
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
def let_loose(window, qtbot, tmp_path, caplog) -> Callable[..., None]:
    """Return what has a monkey use the window so many times, and looks what became of it."""
    folder = tmp_path / "saved"
    folder.mkdir()

    def use(files: list[Path], acts: int, seed: int) -> None:
        monkey = Monkey(window, seed, sorted(files[1:]), folder)
        with monkey.answers(), qtbot.captureExceptions() as faults:
            window.commands.open_path(files[0])
            qtbot.waitUntil(lambda: window.workbench.resolved is not None, timeout=PATIENCE_MS)
            try:
                for number in range(acts):
                    monkey.act()
                    no_fault(faults)
                    if number % EVERY == EVERY - 1:
                        settle(window, qtbot)
                        monkey.close_boxes()
                        check(window, qtbot)
                        no_fault(faults)
                    errors = [r for r in caplog.records if r.levelno >= logging.ERROR]
                    assert not errors, [record.getMessage() for record in errors]
            except BaseException as error:
                trail = "\n  ".join(monkey.trail)
                error.add_note(f"after act {number} of seed {seed}:\n  {trail}")
                raise
            settle(window, qtbot)
            monkey.close_boxes()

    return use


def no_fault(faults: list) -> None:
    assert not faults, "".join(traceback.format_exception(faults[0][1]))


def settle(window: MainWindow, qtbot) -> None:
    """Wait until all that was asked for is done, what was cancelled too."""
    bench = window.workbench

    def idle() -> None:
        timers = (timer for timer in window.findChildren(QTimer) if timer.isSingleShot())
        brief = [timer for timer in timers if timer.isActive() and timer.interval() < 2_000]
        waiting = [then.__qualname__ for then, _ in bench.bridge._waiting.values()]
        assert not waiting, f"{waiting} wait for {bench.bridge._engine._running}"
        assert not brief, [(timer.parent(), timer.interval()) for timer in brief]

    def idle_and_settled() -> None:
        idle()
        assert settled(bench)

    qtbot.wait(1)
    qtbot.waitUntil(idle, timeout=PATIENCE_MS)
    if not settled(bench):
        bench.resolve()
        qtbot.waitUntil(idle_and_settled, timeout=PATIENCE_MS)


def settled(bench: Workbench) -> bool:
    resolved, session = bench.resolved, bench.session
    return (
        resolved is not None
        and session is not None
        and resolved.recipe is session.recipe
        and resolved.draft == bench.draft
    )


def check(window: MainWindow, qtbot) -> None:
    """Check that what the window shows is what its recipe comes to, and that undo undoes."""
    bench = window.workbench
    session, resolved = bench.session, bench.resolved
    assert session is not None
    assert resolved is not None
    assert window.stack.list.model().rowCount() == len(session.steps)
    assert window.stack.list.model()._steps == session.steps
    assert window.history.moments.count() == len(session.history.moments)
    assert window.history.moments.currentRow() == session.history.position
    assert window.isWindowModified() == session.unsaved
    assert bench.chosen is None or bench.chosen in session.checkpoint.tensors
    assert window.draft.preview.isChecked() or bench.draft is None
    assert fresh_counts(session) == (resolved.resolution.counts, str(resolved.error or ""))
    recipe, position = session.recipe, session.history.position
    if position:
        bench.edit(lambda session: session.undo())
        bench.edit(lambda session: session.redo())
        assert (session.recipe, session.history.position) == (recipe, position)
        assert window.stack.list.model()._steps == session.steps
        settle(window, qtbot)


def fresh_counts(session) -> tuple[dict[str, tuple[int, int]], str]:
    """Return what the steps of a session come to, up to the first that cannot be carried out."""
    path, state = session.checkpoint.path, session.checkpoint.state_dict
    with prune_gui.open_checkpoint(path, state or None) as checkpoint:
        try:
            return dict(prune_gui.resolve(session.recipe, checkpoint).counts), ""
        except StepError as error:
            before = session.recipe.with_steps(session.steps[: error.step - 1])
            return dict(prune_gui.resolve(before, checkpoint).counts), str(error)


def a_seed(otherwise: int | None = None) -> int:
    """Return the seed that MONKEY_SEED asks for, or else that one, or else a new one."""
    chosen = random.randrange(10**6) if otherwise is None else otherwise
    return int(os.environ.get("MONKEY_SEED", chosen))


def test_a_few_hundred_random_acts_leave_the_window_consistent(let_loose, files):
    let_loose(files, acts=400, seed=a_seed(1))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thousands_of_random_acts_leave_the_window_consistent(let_loose, files):
    let_loose(files, acts=int(os.environ.get("MONKEY_ACTS", "5000")), seed=a_seed())


@pytest.mark.real
@pytest.mark.timeout(600)
def test_random_acts_on_a_real_checkpoint_leave_the_window_consistent(
    let_loose, files, real_models
):
    minilm = real_models / "minilm" / "model.safetensors"
    often = [minilm] * 3 * len(files)
    let_loose([*often, *files], acts=400, seed=a_seed())
