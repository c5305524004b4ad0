"""Every action of the window in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtGui import QKeySequence

if TYPE_CHECKING:
    from prune_gui.gui.window import MainWindow

Key = QKeySequence.StandardKey


def _always(_: MainWindow) -> bool:
    return True


def _open(window: MainWindow) -> bool:
    return window.workbench.session is not None


def _step(window: MainWindow) -> bool:
    return window.stack.current is not None


def _made(window: MainWindow) -> bool:
    session = window.workbench.session
    return session is not None and session.made is not None and session.made.recipe is not None


def _picture(window: MainWindow) -> bool:
    return window.views.current.picture() is not None


def _table(window: MainWindow) -> bool:
    view = window.views.current
    return view.has_table and view.picture() is not None


def _undo(window: MainWindow) -> str | None:
    session = window.workbench.session
    return session.history.undo_label if session else None


def _redo(window: MainWindow) -> str | None:
    session = window.workbench.session
    return session.history.redo_label if session else None


def _named(verb: str, act: Callable[[MainWindow], str | None]) -> Callable[[MainWindow], str]:
    def text(window: MainWindow) -> str:
        what = act(window)
        return f"{verb}: {what}" if what else verb

    return text


@dataclass(frozen=True, slots=True)
class Act:
    """One thing the user can do.

    Attributes:
        name: in the layouts below.
        text: in menus; a function where it depends.
        tip: a sentence about it.
        run: does it.
        key: on the keyboard.
        icon: by its name.
        when: whether it can be done now.
        checked: whether it is on now; None if it is nothing to be on or off.
        in_stack: whether the key counts only while the stack has the focus.
    """

    name: str
    text: str | Callable[[MainWindow], str]
    tip: str
    run: Callable[[MainWindow], object]
    key: Key | str | None = None
    icon: str | None = None
    when: Callable[[MainWindow], bool] = _always
    checked: Callable[[MainWindow], bool] | None = None
    in_stack: bool = False


def _theme(mode: str, text: str) -> Act:
    return Act(
        f"theme_{mode}",
        text,
        f"{text.replace('&', '')} colours",
        lambda window: window.commands.use_theme(mode),  # type: ignore[arg-type]
        checked=lambda window: window.commands.settings.theme == mode,
    )


TABLE: Final = (
    Act("open", "&Open…", "Open a checkpoint", lambda w: w.commands.open(), Key.Open, "open"),
    Act(
        "open_folder",
        "Open &folder…",
        "Open the checkpoint in a folder: its one file, or all shards together",
        lambda w: w.commands.open_folder(),
    ),
    Act(
        "open_recipe",
        "Open &recipe…",
        "Take the steps of a recipe file",
        lambda w: w.commands.open_recipe(),
        "Ctrl+Shift+O",
        when=_open,
    ),
    Act(
        "use_elsewhere",
        "&Use this recipe on another checkpoint…",
        "Open another checkpoint with the steps there are, and see which of them fit",
        lambda w: w.commands.use_elsewhere(),
        when=_open,
    ),
    Act(
        "reload",
        "Re&load checkpoint",
        "Read the checkpoint anew, and keep the steps and their history",
        lambda w: w.workbench.reload(),
        "Ctrl+R",
        when=_open,
    ),
    Act(
        "own_recipe",
        "&Take the file's recipe",
        "Take the steps that this checkpoint was pruned with, by this program",
        lambda w: w.workbench.edit(lambda session: session.use_own_recipe()),
        when=_made,
    ),
    Act(
        "save_recipe",
        "Save re&cipe",
        "Save the steps as a recipe file",
        lambda w: w.commands.save_recipe(),
        Key.Save,
        "save",
        _open,
    ),
    Act(
        "save_recipe_as",
        "Save recipe &as…",
        "Save the steps as another recipe file",
        lambda w: w.commands.save_recipe_as(),
        when=_open,
    ),
    Act(
        "save_checkpoint",
        "Save &pruned checkpoint…",
        "Write the pruned checkpoint to a file",
        lambda w: w.commands.save_checkpoint(),
        "Ctrl+E",
        "save-as",
        _open,
    ),
    Act("quit", "&Quit", "Close the window", lambda w: w.close(), "Ctrl+Q"),
    Act(
        "undo",
        _named("&Undo", _undo),
        "Undo the last change of the recipe",
        lambda w: w.workbench.edit(lambda session: session.undo()),
        Key.Undo,
        "undo",
        lambda w: _undo(w) is not None,
    ),
    Act(
        "redo",
        _named("&Redo", _redo),
        "Do again what was undone",
        lambda w: w.workbench.edit(lambda session: session.redo()),
        Key.Redo,
        "redo",
        lambda w: _redo(w) is not None,
    ),
    Act(
        "copy_recipe",
        "Copy stack as rec&ipe",
        "Copy the steps as a recipe file has them",
        lambda w: w.commands.copy_recipe(),
        when=_open,
    ),
    Act(
        "copy_command",
        "Copy stack as co&mmand line",
        "Copy a line for a shell that prunes this checkpoint in the same way",
        lambda w: w.commands.copy_command(),
        when=_open,
    ),
    Act(
        "copy_script",
        "Copy stack as &Python script",
        "Copy a program of torch.nn.utils.prune, as far as that goes, with the same masks",
        lambda w: w.commands.copy_script(),
        when=_open,
    ),
    Act(
        "edit_step",
        "&Edit step",
        "Load the step into the form",
        lambda w: w.stack.edit(),
        "F2",
        "edit",
        _step,
        in_stack=True,
    ),
    Act(
        "move_up",
        "Move step &up",
        "Carry the step out earlier",
        lambda w: w.stack.move_step(-1),
        "Alt+Up",
        "up",
        lambda w: bool(w.stack.current),
        in_stack=True,
    ),
    Act(
        "move_down",
        "Move step &down",
        "Carry the step out later",
        lambda w: w.stack.move_step(+1),
        "Alt+Down",
        "down",
        lambda w: _step(w) and w.stack.current != w.stack.last,
        in_stack=True,
    ),
    Act(
        "duplicate",
        "Dup&licate step",
        "Put a copy of the step behind it",
        lambda w: w.stack.duplicate(),
        "Ctrl+D",
        "duplicate",
        _step,
        in_stack=True,
    ),
    Act(
        "remove",
        "Re&move step",
        "Take the step out of the stack",
        lambda w: w.stack.remove(),
        Key.Delete,
        "remove",
        _step,
        in_stack=True,
    ),
    Act(
        "add_step",
        lambda w: "&Apply to step" if w.draft.editing else "&Add step",
        "Add the previewed step to the stack, or apply the edited one",
        lambda w: w.draft.add(),
        "Ctrl+Return",
        "add",
        lambda w: w.draft.commit.isEnabled(),
    ),
    Act(
        "preview",
        "&Preview",
        "Show in every view what the step in the form would do",
        lambda w: w.draft.preview.toggle(),
        "Ctrl+P",
        "preview",
        _open,
        lambda w: w.draft.preview.isChecked(),
    ),
    Act(
        "protect",
        "Pr&otect selected parameters",
        "Let no step touch what is selected on the left; once more: let them again",
        lambda w: w.tree.toggle_protection(),
        "Ctrl+L",
        "lock",
        _open,
    ),
    Act(
        "sweep",
        "&Sweep…",
        "Try several amounts of a step, side by side",
        lambda w: w.show_sweep(),
        when=_open,
    ),
    Act(
        "batch",
        "&Batch…",
        "Carry out the stack on several checkpoints, one after the other",
        lambda w: w.show_batch(),
        when=_open,
    ),
    Act(
        "load_methods",
        "Load methods &from a file…",
        "Run a Python file and offer the pruning methods in it",
        lambda w: w.commands.load_methods(),
    ),
    Act(
        "resolve",
        "&Work out again",
        "Carry out the stack again, after it was cancelled",
        lambda w: w.workbench.resolve(),
        "F5",
        when=_open,
    ),
    Act(
        "cancel",
        "&Cancel",
        "Stop what is running and leave things as they were",
        lambda w: w.status.cancel(),
        "Esc",
        "cancel",
        lambda w: w.status.busy,
    ),
    Act(
        "filter",
        "&Find parameters",
        "Filter modules and parameters by name",
        lambda w: w.tree.filter.setFocus(),
        Key.Find,
        "filter",
    ),
    Act(
        "copy_picture",
        "&Copy picture",
        "Copy the picture in front, with its title and legend",
        lambda w: w.taking.copy_picture(w.views.current),
        "Ctrl+Shift+C",
        when=_picture,
    ),
    Act(
        "save_picture",
        "Save &picture as…",
        "Save the picture in front as PNG or SVG",
        lambda w: w.taking.save_picture(w.views.current),
        when=_picture,
    ),
    Act(
        "white_pictures",
        "&White background",
        "Copy and save pictures in light colours, in the dark too",
        lambda w: w.commands.use_white_pictures(not w.commands.settings.white_pictures),
        checked=lambda w: w.commands.settings.white_pictures,
    ),
    Act(
        "copy_table",
        "Copy &table",
        "Copy the numbers of the picture in front, for a spreadsheet",
        lambda w: w.taking.copy_table(w.views.current),
        when=_table,
    ),
    Act(
        "save_table",
        "Sa&ve table as…",
        "Save the numbers of the picture in front as CSV",
        lambda w: w.taking.save_table(w.views.current),
        when=_table,
    ),
    Act(
        "copy_modules",
        "Copy &modules as table",
        "Copy the parameters that the tree shows, for a spreadsheet",
        lambda w: w.taking.copy_table(w.tree),
        when=_open,
    ),
    Act(
        "save_modules",
        "Save m&odules as table…",
        "Save the parameters that the tree shows as CSV",
        lambda w: w.taking.save_table(w.tree),
        when=_open,
    ),
    Act(
        "settings",
        "&Settings…",
        "Threads, memory, appearance and what else can be as you like it",
        lambda w: w.show_settings(),
        "Ctrl+,",
    ),
    Act(
        "next_parameter",
        "&Next parameter",
        "Look at the next parameter of the file",
        lambda w: w.workbench.choose_beside(+1),
        "Ctrl+PgDown",
        when=_open,
    ),
    Act(
        "previous_parameter",
        "Pr&evious parameter",
        "Look at the parameter before",
        lambda w: w.workbench.choose_beside(-1),
        "Ctrl+PgUp",
        when=_open,
    ),
    _theme("system", "As the &system"),
    _theme("light", "&Light"),
    _theme("dark", "&Dark"),
    Act("reset", "&Reset layout", "Put the docks back", lambda w: w.reset_layout(), icon="fit"),
    Act(
        "demo",
        "Open the &demo",
        "A small network that reads digits, and a recipe for it",
        lambda w: w.commands.open_demo(),
        icon="demo",
    ),
    Act(
        "palette",
        "&Command palette…",
        "Find any command by its name",
        lambda w: w.show_palette(),
        "Ctrl+Shift+P",
    ),
    Act(
        "shortcuts",
        "&Keyboard shortcuts",
        "All keys",
        lambda w: w.show_shortcuts(),
        "F1",
    ),
    Act("guide", "&User guide", "How to use this program", lambda w: w.show_guide()),
    Act(
        "last_crash",
        "&Last crash…",
        "Where this program was when it last died, for a report",
        lambda w: w.show_last_crash(),
        when=lambda w: w.last_crash is not None,
    ),
    Act("about", "&About Prune GUI", "What it is made of", lambda w: w.commands.about()),
)
