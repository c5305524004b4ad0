"""The real program in a hostile folder: a script that `test_working_folder.py` runs there.

``python watch_folder.py commands OUT`` inspects, prunes and compares ``model.safetensors`` of the
working folder; ``... window`` opens it in the window, drafts a step and closes the window. Both
print, as JSON, the paths in the working folder that Python opened, listed, imported or loaded.
"""

import json
import os
import sys
from pathlib import Path

FOLDER = Path.cwd()
EVENTS = {"open", "os.listdir", "os.scandir", "import", "ctypes.dlopen"}
seen: set[str] = set()


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """Record a path within the folder. The first argument of an import event is a name."""
    path = arguments[event == "import"] if event in EVENTS else None
    if isinstance(path, str | bytes | os.PathLike) and path:
        full_path = Path(os.path.normpath(FOLDER / os.fsdecode(path)))
        if full_path.is_relative_to(FOLDER):
            seen.add(str(full_path.relative_to(FOLDER)))


def use_commands(out: str) -> None:
    from prune_gui.cli.program import cli

    for arguments in (
        ["inspect", "model.safetensors"],
        ["apply", f"{out}/recipe.yaml", "model.safetensors", "-o", f"{out}/pruned.safetensors"],
        ["diff", "model.safetensors", f"{out}/pruned.safetensors"],
    ):
        cli.main(arguments, standalone_mode=False)


def use_window() -> None:
    from PySide6.QtCore import QTimer
    from use_window import Robot, retype

    from prune_gui.gui.app import run
    from prune_gui.gui.window import MainWindow

    def actions(window):
        bench = window.workbench
        yield lambda: bench.resolved is not None
        retype(window.draft.targets.line, "*.weight")
        yield lambda: not window.draft.obstacle
        window.workbench.edit(lambda session: session.undo())  # or closing asks about the draft
        QTimer.singleShot(0, window.close)

    show_event = MainWindow.showEvent

    def show(window, event):
        show_event(window, event)
        Robot(window, actions(window))

    MainWindow.showEvent = show
    if run(Path("model.safetensors"), None) != 0:
        raise SystemExit("the window did not end as it should")


if __name__ == "__main__":
    sys.addaudithook(watch)
    use_commands(sys.argv[2]) if sys.argv[1] == "commands" else use_window()
    sys.stdout.write("\n" + json.dumps(sorted(seen)))
