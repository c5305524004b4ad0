"""Every action of the window in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from PySide6.QtGui import QKeySequence

from prune_gui.language import later, tr

if TYPE_CHECKING:
    from prune_gui.gui.window import MainWindow

Key = QKeySequence.StandardKey


def _open(window: MainWindow) -> bool:
    return window.workbench.session is not None


def _step(window: MainWindow) -> bool:
    return window.stack.current is not None


def _made(window: MainWindow) -> bool:
    session = window.workbench.session
    return session is not None and session.made is not None and session.made.recipe is not None


def _picture(window: MainWindow) -> bool:
    view = window.views.current
    return _open(window) and view is not None and view.picture() is not None


def _table(window: MainWindow) -> bool:
    return _picture(window) and window.views.front.has_table


def _undo(window: MainWindow) -> str | None:
    session = window.workbench.session
    return session.history.undo_label if session else None


def _redo(window: MainWindow) -> str | None:
    session = window.workbench.session
    return session.history.redo_label if session else None


def _undo_text(window: MainWindow) -> str:
    what = _undo(window)
    return tr("&Undo: {what}", what=what) if what else tr("&Undo")


def _redo_text(window: MainWindow) -> str:
    what = _redo(window)
    return tr("&Redo: {what}", what=what) if what else tr("&Redo")


@dataclass(frozen=True, slots=True)
class Act:
    """One thing the user can do.

    Attributes:
        name: in the layouts below.
        text: in menus, to be translated; a function that translates it where it depends.
        tip: a sentence about it, to be translated.
        run: does it.
        key: on the keyboard.
        icon: by its name.
        when: whether it can be done now.
        checked: whether it is on now; None if it is nothing to be on or off.
        in_stack: whether the key counts only while the stack has the focus.
        button: on buttons, to be translated; None if that is the text in menus.
    """

    name: str
    text: str | Callable[[MainWindow], str]
    tip: str
    run: Callable[[MainWindow], object]
    key: Key | str | None = None
    icon: str | None = None
    when: Callable[[MainWindow], bool] = lambda _: True
    checked: Callable[[MainWindow], bool] | None = None
    in_stack: bool = False
    button: str | None = None


def _theme(mode: str, text: str, tip: str) -> Act:
    return Act(
        f"theme_{mode}",
        text,
        tip,
        lambda window: window.commands.use_theme(mode),  # type: ignore[arg-type]
        checked=lambda window: window.commands.settings.theme == mode,
    )


TABLE: Final = (
    Act(
        "open",
        later("&Open…"),
        later("Open a checkpoint"),
        lambda w: w.commands.open(),
        Key.Open,
        "open",
    ),
    Act(
        "open_folder",
        later("Open &folder…"),
        later("Open the checkpoint in a folder: its one file, or all shards together"),
        lambda w: w.commands.open_folder(),
    ),
    Act(
        "open_recipe",
        later("Open &recipe…"),
        later("Take the steps of a recipe file"),
        lambda w: w.commands.open_recipe(),
        "Ctrl+Shift+O",
        when=_open,
    ),
    Act(
        "use_elsewhere",
        later("&Use this recipe on another checkpoint…"),
        later("Open another checkpoint with the steps there are, and see which of them fit"),
        lambda w: w.commands.use_elsewhere(),
        when=_open,
    ),
    Act(
        "reload",
        later("Re&load checkpoint"),
        later("Read the checkpoint anew, and keep the steps and their history"),
        lambda w: w.workbench.reload(),
        "Ctrl+R",
        when=_open,
    ),
    Act(
        "own_recipe",
        later("&Take the file's recipe"),
        later("Take the steps that this checkpoint was pruned with, by this program"),
        lambda w: w.workbench.edit(lambda session: session.use_own_recipe()),
        when=_made,
    ),
    Act(
        "save_recipe",
        later("Save re&cipe"),
        later("Save the steps as a recipe file"),
        lambda w: w.commands.save_recipe(),
        Key.Save,
        "save",
        _open,
    ),
    Act(
        "save_recipe_as",
        later("Save recipe &as…"),
        later("Save the steps as another recipe file"),
        lambda w: w.commands.save_recipe_as(),
        when=_open,
    ),
    Act(
        "save_checkpoint",
        later("Save &pruned checkpoint…"),
        later("Write the pruned checkpoint to a file"),
        lambda w: w.commands.save_checkpoint(),
        "Ctrl+E",
        "save-as",
        _open,
    ),
    Act(
        "new_window",
        later("N&ew window"),
        later("Open another window, with a checkpoint and a stack of its own"),
        lambda w: w.another_wanted.emit(None),
        "Ctrl+Shift+N",
    ),
    Act(
        "close_window",
        later("Close &window"),
        later("Close this window"),
        lambda w: w.close(),
        "Ctrl+W",
    ),
    Act(
        "quit", later("&Quit"), later("Close all windows"), lambda w: w.quit_wanted.emit(), "Ctrl+Q"
    ),
    Act(
        "undo",
        _undo_text,
        later("Undo the last change of the recipe"),
        lambda w: w.workbench.edit(lambda session: session.undo()),
        Key.Undo,
        "undo",
        lambda w: _undo(w) is not None,
        button=later("Undo"),
    ),
    Act(
        "redo",
        _redo_text,
        later("Do again what was undone"),
        lambda w: w.workbench.edit(lambda session: session.redo()),
        Key.Redo,
        "redo",
        lambda w: _redo(w) is not None,
        button=later("Redo"),
    ),
    Act(
        "copy_recipe",
        later("Copy stack as rec&ipe"),
        later("Copy the steps as a recipe file has them"),
        lambda w: w.commands.copy_recipe(),
        when=_open,
    ),
    Act(
        "copy_command",
        later("Copy stack as co&mmand line"),
        later("Copy a line for a shell that prunes this checkpoint in the same way"),
        lambda w: w.commands.copy_command(),
        when=_open,
    ),
    Act(
        "copy_script",
        later("Copy stack as &Python script"),
        later("Copy a program of torch.nn.utils.prune, as far as that goes, with the same masks"),
        lambda w: w.commands.copy_script(),
        when=_open,
    ),
    Act(
        "edit_step",
        later("&Edit step"),
        later("Load the step into the form"),
        lambda w: w.stack.edit(),
        "F2",
        "edit",
        _step,
        in_stack=True,
    ),
    Act(
        "move_up",
        later("Move step &up"),
        later("Carry the step out earlier"),
        lambda w: w.stack.move_step(-1),
        "Alt+Up",
        "up",
        lambda w: bool(w.stack.current),
        in_stack=True,
    ),
    Act(
        "move_down",
        later("Move step &down"),
        later("Carry the step out later"),
        lambda w: w.stack.move_step(+1),
        "Alt+Down",
        "down",
        lambda w: _step(w) and w.stack.current != w.stack.last,
        in_stack=True,
    ),
    Act(
        "duplicate",
        later("Dup&licate step"),
        later("Put a copy of the step behind it"),
        lambda w: w.stack.duplicate(),
        "Ctrl+D",
        "duplicate",
        _step,
        in_stack=True,
    ),
    Act(
        "remove",
        later("Re&move step"),
        later("Take the step out of the stack"),
        lambda w: w.stack.remove(),
        Key.Delete,
        "remove",
        _step,
        in_stack=True,
    ),
    Act(
        "switch_step",
        later("Switc&h step on or off"),
        later("Leave the step out, or carry it out again; it keeps its place"),
        lambda w: w.stack.switch(),
        "Space",
        when=_step,
        in_stack=True,
    ),
    Act(
        "clear_stack",
        later("Remo&ve all steps"),
        later("Begin again with an empty stack; undo brings the steps back"),
        lambda w: w.workbench.edit(lambda session: session.clear()),
        when=_step,
    ),
    Act(
        "add_step",
        lambda w: tr("&Apply to step") if w.draft.editing else tr("&Add step"),
        later("Add the previewed step to the stack, or apply the edited one"),
        lambda w: w.draft.add(),
        "Ctrl+Return",
        "add",
        lambda w: w.draft.commit.isEnabled(),
    ),
    Act(
        "preview",
        later("&Preview"),
        later("Show in every view what the step in the form would do"),
        lambda w: w.draft.preview.toggle(),
        "Ctrl+P",
        "preview",
        _open,
        lambda w: w.draft.preview.isChecked(),
    ),
    Act(
        "protect",
        later("Pr&otect selected parameters"),
        later("Let no step touch what is selected on the left; once more: let them again"),
        lambda w: w.tree.toggle_protection(),
        "Ctrl+L",
        "lock",
        _open,
    ),
    Act(
        "save_preset",
        later("Save stac&k as a preset…"),
        later("Keep the steps under a name, to add them to any stack"),
        lambda w: w.save_preset(),
        when=lambda w: w.stack.last >= 0,
    ),
    Act(
        "manage_presets",
        later("Mana&ge presets…"),
        later("Rename and remove presets of your own"),
        lambda w: w.show_presets(),
    ),
    Act(
        "sweep",
        later("&Sweep…"),
        later("Try several amounts of a step, side by side"),
        lambda w: w.show_sweep(),
        when=_open,
    ),
    Act(
        "batch",
        later("&Batch…"),
        later("Carry out the stack on several checkpoints, one after the other"),
        lambda w: w.show_batch(),
        when=_open,
    ),
    Act(
        "load_methods",
        later("Load methods &from a file…"),
        later("Run a Python file and offer the pruning methods in it"),
        lambda w: w.commands.load_methods(),
    ),
    Act(
        "resolve",
        later("&Work out again"),
        later("Carry out the stack again, after it was cancelled"),
        lambda w: w.workbench.resolve(),
        "F5",
        when=_open,
    ),
    Act(
        "cancel",
        later("&Cancel"),
        later("Stop what is running and leave things as they were"),
        lambda w: w.status.cancel(),
        "Esc",
        "cancel",
        lambda w: w.status.busy,
    ),
    Act(
        "filter",
        later("&Find parameters"),
        later("Filter modules and parameters by name"),
        lambda w: w.tree.filter.setFocus(),
        Key.Find,
        "filter",
    ),
    Act(
        "copy_picture",
        later("&Copy picture"),
        later("Copy the picture in front, with its title and legend"),
        lambda w: w.taking.copy_picture(w.views.front),
        "Ctrl+Shift+C",
        when=_picture,
    ),
    Act(
        "save_picture",
        later("Save &picture as…"),
        later("Save the picture in front as PNG or SVG"),
        lambda w: w.taking.save_picture(w.views.front),
        when=_picture,
    ),
    Act(
        "white_pictures",
        later("&White background"),
        later("Copy and save pictures in light colours, in the dark too"),
        lambda w: w.commands.use_white_pictures(not w.commands.settings.white_pictures),
        checked=lambda w: w.commands.settings.white_pictures,
    ),
    Act(
        "copy_table",
        later("Copy &table"),
        later("Copy the numbers of the picture in front, for a spreadsheet"),
        lambda w: w.taking.copy_table(w.views.front),
        when=_table,
    ),
    Act(
        "save_table",
        later("Sa&ve table as…"),
        later("Save the numbers of the picture in front as CSV"),
        lambda w: w.taking.save_table(w.views.front),
        when=_table,
    ),
    Act(
        "copy_modules",
        later("Copy &modules as table"),
        later("Copy the parameters that the tree shows, for a spreadsheet"),
        lambda w: w.taking.copy_table(w.tree),
        when=_open,
    ),
    Act(
        "save_modules",
        later("Save m&odules as table…"),
        later("Save the parameters that the tree shows as CSV"),
        lambda w: w.taking.save_table(w.tree),
        when=_open,
    ),
    Act(
        "settings",
        later("&Settings…"),
        later("Threads, memory, appearance and what else can be as you like it"),
        lambda w: w.show_settings(),
        "Ctrl+,",
    ),
    Act(
        "next_parameter",
        later("&Next parameter"),
        later("Look at the next parameter of the file"),
        lambda w: w.workbench.choose_beside(+1),
        "Ctrl+PgDown",
        when=_open,
    ),
    Act(
        "previous_parameter",
        later("Pr&evious parameter"),
        later("Look at the parameter before"),
        lambda w: w.workbench.choose_beside(-1),
        "Ctrl+PgUp",
        when=_open,
    ),
    _theme("system", later("As the &system"), later("The colours of the system")),
    _theme("light", later("&Light"), later("Light colours")),
    _theme("dark", later("&Dark"), later("Dark colours")),
    Act(
        "reset",
        later("&Reset layout"),
        later("Put the docks back"),
        lambda w: w.reset_layout(),
        icon="fit",
    ),
    Act(
        "demo",
        later("Open the &demo"),
        later("A small network that reads digits, and a recipe for it"),
        lambda w: w.commands.open_demo(),
        icon="demo",
    ),
    Act(
        "palette",
        later("&Command palette…"),
        later("Find any command by its name"),
        lambda w: w.show_palette(),
        "Ctrl+Shift+P",
    ),
    Act(
        "shortcuts",
        later("&Keyboard shortcuts"),
        later("All keys"),
        lambda w: w.show_shortcuts(),
        "F1",
    ),
    Act("guide", later("&User guide"), later("How to use this program"), lambda w: w.show_guide()),
    Act(
        "last_crash",
        later("&Last crash…"),
        later("Where this program was when it last died, for a report"),
        lambda w: w.show_last_crash(),
        when=lambda w: w.last_crash is not None,
    ),
    Act(
        "about",
        later("&About Prune GUI"),
        later("What it is made of"),
        lambda w: w.commands.about(),
    ),
)
