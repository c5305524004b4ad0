"""The first start after an installation: times to the first picture of each view of the demo.

Usage: ``python benchmarks/first_start.py [FOLDER]``. FOLDER holds the package `prune_gui`, by
default that of this checkout. It is copied without any compiled module or loop, into a folder that
has no settings either. The copy is started on the demo as often as `STARTS` says; the first start
finds nothing, the last all loops compiled. As root on Linux, the file cache of the system is
emptied before the first start, so that it also reads all libraries from the disk.

The clock of the first mask starts when the window is painted; that of a view, when its tab is
clicked; that of the preview, when the amount changes. Each step begins when the one before is done.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from measuring import HEADINGS, Figure, seconds, table_row
from startup import HOOK, SHOW

STARTS: Final = ("first start", "second start", "all compiled")
"""What each start is called. Before the last one, all loops are compiled."""
TIMEOUT_S: Final = 180
COLD_MASK_S, MASK_S, VIEW_S, PREVIEW_S = 4.0, 2.0, 1.0, 0.5
"""The promises for the first mask, with and without an empty file cache, a view, and a preview."""
DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")

SCRIPT: Final = f"""
{HOOK}
from prune_gui.gui.views.registry import VIEWS
figures = {{}}
def painted():
    [window] = windows
    views, workbench = window.views, window.workbench
    others = [spec.key for spec in VIEWS if spec.key != "mask"]
    steps = iter(["mask", *others, "preview"])
    timer = QTimer(window, interval=2)
    figures["painted"] = time.monotonic()
    state = {{}}
    def bring_forward():
        views.bring_forward("mask" if state["name"] == "preview" else state["name"])
    def begin():
        name = next(steps, None)
        if name is None:
            report(**figures)
        state.update(name=name, since=time.monotonic())
        bring_forward()
        if name == "preview":
            window.draft.edit_with_amount(0, 0.9)
    def look():
        bring_forward()  # the file that opens brings the overview forward
        view, resolved = views.current, workbench.resolved
        if view is None or resolved is None or view.picture() is None:
            return
        tickets = (workbench.resolve_ticket, view.ticket)
        if any(each is not None and workbench.bridge.waits_for(each) for each in tickets):
            return
        if state["name"] == "preview" and resolved.preview is None:
            return
        figures[state["name"]] = time.monotonic() - state["since"]
        begin()
    timer.timeout.connect(look)
    begin()
    timer.start()
{SHOW}
"""
COMPILE: Final = "from prune_gui.worker.warm_up import main; main()"


def copy(source: Path, target: Path) -> None:
    """Copy the package and what it ships, without compiled modules and loops."""
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("prune_gui", "resources"):
        if (source / name).exists():  # an installed package has its resources inside
            shutil.copytree(source / name, target / name, ignore=ignore)


def run(folder: Path, script: str, *arguments: str) -> str:
    """Run a script with the copy of the package, and return what it prints."""
    homes = {f"XDG_{name}_HOME": str(folder) for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    environment = {**os.environ, **homes, "PYTHONPATH": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, cwd=folder,
        env=environment,
    )  # fmt: skip
    return done.stdout


def empty_file_cache() -> bool:
    """Empty the file cache of the system; return whether this is allowed."""
    os.sync()
    try:
        DROP_CACHES.write_text("3")
    except OSError:
        return False
    return True


def main() -> int:
    """Measure and print; return 1 if a promise is broken, else 0."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    all_held = True
    print(table_row([heading.replace("torch", "window") for heading in HEADINGS]))
    # "window" is the time from the start of the process until the window is painted.
    with TemporaryDirectory() as name:
        folder = Path(name)
        copy(source, folder)
        for title in STARTS:
            if title == STARTS[-1]:
                run(folder, COMPILE)
            cold = title == STARTS[0] and empty_file_cache()
            start_time = time.monotonic()
            figures = json.loads(run(folder, SCRIPT, "demo"))
            shown = seconds(figures.pop("painted") - start_time)
            limits = {"mask": COLD_MASK_S if cold else MASK_S, "preview": PREVIEW_S}
            for work, duration in figures.items():
                limit = limits.get(work, VIEW_S)
                held = duration <= limit
                all_held &= held
                row = (f"{title}: {work}", seconds(duration), shown if work == "mask" else "")
                print(Figure(*row, wanted=f"<= {limit:g} s", held=held), flush=True)
    return 0 if all_held else 1


if __name__ == "__main__":
    sys.exit(main())
