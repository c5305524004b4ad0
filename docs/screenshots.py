"""Make the pictures of the documentation, by driving the real window.

Usage: ``python docs/screenshots.py [NAME ...]``; the default is all pictures. It needs
``pip install ".[docs]"`` and, on a machine without a display, Xvfb. Each picture is a function
below, which shows something in the window and returns the widget to grab.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from PySide6.QtGui import QPixmap
    from PySide6.QtWidgets import QWidget

    from prune_gui.gui.window import MainWindow
    from prune_gui.recipe import Step

ROOT: Final = Path(__file__).parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"
README_PICTURE: Final = ROOT / "packaging" / "screenshot.png"
SIZE_PX: Final = 1280, 800
DOCK_PX: Final = 420
"""Height of the dock that evaluates."""
COLOURS: Final = 256
MIN_COLOURS: Final = 16
MAX_BYTES: Final = 150_000
"""Limit on the size of a picture."""
HIDDEN: Final = "classifier.hidden.weight"
CONVOLUTION: Final = "features.conv3.weight"


def main() -> None:
    """Make the pictures that are named, or all, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENES))
    names = parser.parse_args().names or list(SCENES)
    with display():
        if len(names) == 1:
            with own_settings() as folder:
                make(names[0], folder)
            return
        for name in names:
            print(name, flush=True)
            subprocess.run([sys.executable, __file__, name], check=True)


@contextmanager
def display() -> Iterator[None]:
    """Start a display in memory, if there is none."""
    if os.environ.get("DISPLAY") or sys.platform != "linux":
        yield
        return
    reading, writing = os.pipe()
    width, height = SIZE_PX
    screen = ["-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp"]
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), *screen], pass_fds=[writing], stderr=subprocess.DEVNULL
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as lines:
            os.environ["DISPLAY"] = f":{lines.readline().strip()}"
        os.environ["QT_QPA_PLATFORM"] = "xcb"
        yield
    finally:
        server.terminate()
        server.wait()


@contextmanager
def own_settings() -> Iterator[Path]:
    """Use no settings of the user, and a temporary working folder with the files of the demo."""
    os.environ["LC_ALL"] = "C.UTF-8"
    folder = Path(tempfile.gettempdir()) / "prune-gui-pictures"  # pictures show this path
    folder.mkdir()
    try:
        for name in ("config", "state", "data"):
            os.environ[f"XDG_{name.upper()}_HOME"] = f"{folder}/{name}"
        shutil.copytree(ROOT / "resources" / "demo", folder / "demo")
        os.chdir(folder)
        yield folder / "demo"
    finally:
        shutil.rmtree(folder)


def make(name: str, folder: Path) -> None:
    """Make one picture."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from PySide6.QtWidgets import QApplication
    from views import until_idle
    from window import opened_window, wait_for

    from prune_gui.gui.widgets.theme import Theme

    with opened_window() as window:
        Theme(QApplication.instance(), "dark" if name.endswith("-dark") else "light")
        window.resize(*SIZE_PX)
        wait_for(window.workbench.ready, window.workbench.warm_up)
        until_idle(window)
        grabbed = SCENES[name](window, folder)
        until_idle(window)
        save(grabbed.grab(), PICTURES / f"{name}.png")
    if name == "window":
        shutil.copy(PICTURES / "window.png", README_PICTURE)


def save(picture: QPixmap, path: Path) -> None:
    """Write a picture with few colours, so that its file is small.

    Raises:
        SystemExit: the file is too large, or the picture is nearly empty.
    """
    from PIL import Image

    picture.save(str(path))
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(
            COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    few.save(path, optimize=True)
    used = len(few.getcolors(COLOURS) or ())
    if used < MIN_COLOURS or path.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{path}: {used} colours, {path.stat().st_size:,} bytes.")


def open_demo(window: MainWindow, recipe: Path | None = None) -> None:
    """Open the demo, with the steps of a recipe."""
    open_checkpoint(window, ROOT / "resources" / "demo" / "digits_cnn.safetensors", recipe)


def open_checkpoint(window: MainWindow, path: Path, recipe: Path | None = None) -> None:
    """Open a checkpoint, and wait until it is resolved."""
    from views import until_idle
    from window import is_resolved, wait_for

    bench = window.workbench
    wait_for(bench.changed, lambda: bench.files.open(path, recipe), is_resolved)
    until_idle(window)


def show(window: MainWindow, view: str, parameter: str) -> None:
    """Show a parameter in a view."""
    from views import until_idle

    window.views.bring_forward(view)
    window.workbench.choose(parameter)
    until_idle(window)


def step(method: str, *targets: str, **fields: object) -> Step:
    """Return a step."""
    from prune_gui.pruning.methods import METHODS
    from prune_gui.recipe import Step

    return Step(method=METHODS[method].model_validate(fields), targets=targets or ("dims>1",))


def add(window: MainWindow, *steps: Step) -> None:
    """Add steps to the stack."""
    from views import until_idle

    for each in steps:
        window.workbench.edit(lambda session, each=each: session.add(each))
    until_idle(window)


def draft(window: MainWindow, drafted: Step) -> None:
    """Make a step the draft."""
    from views import until_idle

    from prune_gui.session.draft_request import StepRequest

    window.draft.change(StepRequest(drafted))
    until_idle(window)


def demo_in_window(window: MainWindow, _: Path) -> QWidget:
    """Show the window on the demo and its three steps."""
    open_demo(window, ROOT / "resources" / "demo" / "digits_cnn.yaml")
    show(window, "mask", HIDDEN)
    return window


def layers(window: MainWindow, _: Path) -> QWidget:
    """Show the layers of the demo in the dark."""
    open_demo(window, ROOT / "resources" / "demo" / "digits_cnn.yaml")
    show(window, "layers", HIDDEN)
    return window


def distribution(window: MainWindow, _: Path) -> QWidget:
    """Show the cut of a draft of LAMP."""
    open_demo(window)
    show(window, "distribution", HIDDEN)
    draft(window, step("lamp", amount=0.8))
    return window


def two_of_four(window: MainWindow, _: Path) -> QWidget:
    """Show single weights of a 2:4 step."""
    open_demo(window)
    add(window, step("n_m", "type:Linear dims>1"))
    show(window, "mask", HIDDEN)
    canvas = window.views.front.picture()
    canvas.view.setRange(xRange=(0, 32), yRange=(0, 20), padding=0)
    return window.views


def audit(window: MainWindow, folder: Path) -> QWidget:
    """Show a file that torch has pruned."""
    import torch
    from safetensors.torch import load_file
    from torch.nn.utils import prune

    tensors = load_file(folder / "digits_cnn.safetensors")
    layer = torch.nn.Linear(1024, 64)
    layer.weight.data = tensors[HIDDEN]
    prune.ln_structured(layer, "weight", amount=16, n=2, dim=0)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    torch.save({"model": tensors | {HIDDEN: layer.weight.detach()}}, folder / "elsewhere.pt")
    open_checkpoint(window, folder / "elsewhere.pt")
    show(window, "overview", HIDDEN)
    return window


def compare(window: MainWindow, _: Path) -> QWidget:
    """Show the difference between two named states."""
    from prune_gui.session.subjects import NamedState

    open_demo(window)
    for name, each in {
        "Global L1": step("l1_unstructured", scope="global", amount=0.5),
        "LAMP": step("lamp", amount=0.5),
    }.items():
        window.workbench.edit(lambda session, each=each: session.take_steps((each,)))
        window.workbench.edit(lambda session, name=name: session.name_state(name))
    show(window, "compare", CONVOLUTION)
    window.workbench.comparison.choose("left", NamedState("Global L1"))
    window.workbench.comparison.choose("right", NamedState("LAMP"))
    window.views.front.show_pictures()
    window.views.front.pictures.show_mode("difference")
    return window.views


def losses(window: MainWindow, _: Path) -> QWidget:
    """Show what every parameter of the demo loses, beside the blocks."""
    from PySide6.QtWidgets import QDockWidget

    open_demo(window, ROOT / "resources" / "demo" / "digits_cnn.yaml")
    window.findChild(QDockWidget, "Modules").hide()
    show(window, "compare", HIDDEN)
    return window.views


def figure(window: MainWindow, _: Path) -> QWidget:
    """Show the dialog that exports figures, with all of them on a page."""
    from prune_gui.gui.figures.dialog import FigureDialog
    from prune_gui.session.settings import FigureSettings

    open_demo(window, ROOT / "resources" / "demo" / "digits_cnn.yaml")
    show(window, "mask", HIDDEN)
    settings = FigureSettings(layout="page", width=180)
    dialog = FigureDialog(window.workbench, window.views.front, None, settings, window)
    dialog.show()
    return dialog


def groups(window: MainWindow, _: Path) -> QWidget:
    """Show the channels of a convolution as units."""
    open_demo(window)
    show(window, "groups", CONVOLUTION)
    draft(window, step("coupled", "*", space="channels", amount=0.25))
    return window


def sweep(window: MainWindow, folder: Path) -> QWidget:
    """Show the accuracy of the demo for several rankings."""
    return evaluated(window, folder, "sweep")


def search(window: MainWindow, folder: Path) -> QWidget:
    """Show the search for the most sparsity that keeps the accuracy of the demo."""
    return evaluated(window, folder, "search")


def evaluated(window: MainWindow, folder: Path, page: str) -> QWidget:
    """Run a page of the dock that evaluates on the demo."""
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QDockWidget
    from views import until_idle
    from window import wait_for

    from prune_gui.evaluation.spec import EvaluatorChoice

    open_checkpoint(window, folder / "digits_cnn.safetensors")
    window.show_evaluated_sweep()
    dock = window.findChild(QDockWidget, "Evaluate")
    window.resizeDocks([dock], [DOCK_PX], Qt.Orientation.Vertical)
    until_idle(window)
    panel = window.evaluate
    panel.evaluations._agree = lambda _: True  # in place of the question
    panel.evaluations.choose(EvaluatorChoice(text="demo/evaluate.py:evaluate"))

    tab = getattr(panel, page)
    panel.tabs.setCurrentWidget(tab)

    def has_ended() -> bool:
        return panel.evaluations.run is None

    wait_for(panel.evaluations.running_changed, tab.run.click, has_ended)
    return panel


def save_dialog(window: MainWindow, folder: Path) -> QWidget:
    """Show the dialog that saves."""
    from prune_gui.gui.saving.save_dialog import SaveDialog

    open_checkpoint(window, folder / "digits_cnn.safetensors")
    add(window, step("lamp", amount=0.8))
    dialog = SaveDialog(window.workbench, folder / "from-window.safetensors", parent=window)
    dialog.show()
    return dialog


SCENES: Final[dict[str, Callable[[MainWindow, Path], QWidget]]] = {
    "window": demo_in_window,
    "layers-dark": layers,
    "distribution": distribution,
    "two-of-four": two_of_four,
    "audit": audit,
    "compare": compare,
    "losses": losses,
    "figure": figure,
    "groups": groups,
    "sweep": sweep,
    "search": search,
    "save": save_dialog,
}

if __name__ == "__main__":
    main()
