"""The actions of the menus File, Edit and Help, by name."""

from __future__ import annotations

from typing import Final

from prune_gui.gui.actions.action_spec import (
    ActionSpec,
    Key,
    redo_label,
    redo_text,
    undo_label,
    undo_text,
    when_open,
)
from prune_gui.language import deferred

DOCUMENT_ACTIONS: Final[dict[str, ActionSpec]] = {
    "new_window": ActionSpec(
        deferred("N&ew window"),
        deferred("Open another window, with its own checkpoint and stack"),
        lambda w: w.another_wanted.emit(None),
        "Ctrl+Shift+N",
    ),
    "open": ActionSpec(
        deferred("&Open…"),
        deferred("Open a checkpoint"),
        lambda w: w.commands.open(),
        Key.Open,
        "open",
    ),
    "open_folder": ActionSpec(
        deferred("Open &folder…"),
        deferred("Open the checkpoint in a folder: its one file, or all shards together"),
        lambda w: w.commands.open_folder(),
    ),
    "open_run": ActionSpec(
        deferred("O&pen run…"),
        deferred("Show the masks of a run of training over its steps, also while it runs"),
        lambda w: w.show_run(),
    ),
    "open_location": ActionSpec(
        deferred("Open loca&tion…"),
        deferred("Open a remote checkpoint by its URL: https, s3, gs, az or hf"),
        lambda w: w.commands.open_location(),
        "Ctrl+Shift+L",
    ),
    "reload": when_open(
        deferred("Re&load checkpoint"),
        deferred("Read the checkpoint again, and keep the steps and their history"),
        lambda w: w.workbench.files.reload(),
        "Ctrl+R",
    ),
    "fetch_all": ActionSpec(
        deferred("Fetch whole chec&kpoint…"),
        deferred("Fetch all of a remote checkpoint, which is kept in the cache"),
        lambda w: w.commands.remote.ask(),
        when=lambda w: w.commands.remote.is_open,
    ),
    "open_recipe": when_open(
        deferred("Open &recipe…"),
        deferred("Load the steps of a recipe file"),
        lambda w: w.commands.open_recipe(),
        "Ctrl+Shift+O",
    ),
    "use_masks": when_open(
        deferred("Use a &masks file as a step…"),
        deferred("Add a step that prunes where the masks in a file are 0"),
        lambda w: w.commands.use_masks(),
    ),
    "use_elsewhere": when_open(
        deferred("&Use this recipe on another checkpoint…"),
        deferred("Open another checkpoint with the current steps, and check which of them match"),
        lambda w: w.commands.use_elsewhere(),
    ),
    "save_recipe": when_open(
        deferred("Save rec&ipe"),
        deferred("Save the steps as a recipe file"),
        lambda w: w.commands.save_recipe(),
        Key.Save,
        "save",
    ),
    "save_recipe_as": when_open(
        deferred("Save recipe &as…"),
        deferred("Save the steps as another recipe file"),
        lambda w: w.commands.save_recipe_as(),
    ),
    "save_checkpoint": when_open(
        deferred("Save prune&d checkpoint…"),
        deferred("Write the pruned checkpoint to a file"),
        lambda w: w.commands.save_checkpoint(),
        "Ctrl+Shift+S",
        "save-as",
    ),
    "report": when_open(
        deferred("Report as &HTML…"),
        deferred("Write a page that says what was pruned, to read, print and send"),
        lambda w: w.show_report(),
    ),
    "export_figure": when_open(
        deferred("E&xport figure…"),
        deferred("Export the current picture or a ready layout as PDF, SVG or PNG"),
        lambda w: w.exporter.export_figure(w.views.front),
        "Ctrl+Shift+F",
    ),
    "choose_reference": when_open(
        deferred("&Choose the reference…"),
        deferred("Choose the checkpoint before pruning: kept energy is relative to it"),
        lambda w: w.commands.choose_reference(),
    ),
    "forget_reference": ActionSpec(
        deferred("For&get the reference"),
        deferred("Do not compare with another checkpoint: kept energy is unknown"),
        lambda w: w.workbench.comparison.set_reference(None),
        when=lambda w: w.session is not None and w.session.reference_path is not None,
    ),
    "close_window": ActionSpec(
        deferred("Close &window"), deferred("Close this window"), lambda w: w.close(), "Ctrl+W"
    ),
    "quit": ActionSpec(
        deferred("&Quit"), deferred("Close all windows"), lambda w: w.quit_wanted.emit(), "Ctrl+Q"
    ),
    "undo": ActionSpec(
        undo_text,
        deferred("Undo the last change of the recipe"),
        lambda w: w.workbench.edit(lambda session: session.undo()),
        Key.Undo,
        "undo",
        lambda w: undo_label(w) is not None,
        button=deferred("Undo"),
    ),
    "redo": ActionSpec(
        redo_text,
        deferred("Redo the last change that was undone"),
        lambda w: w.workbench.edit(lambda session: session.redo()),
        Key.Redo,
        "redo",
        lambda w: redo_label(w) is not None,
        button=deferred("Redo"),
    ),
    "copy_recipe": when_open(
        deferred("Copy stack as rec&ipe"),
        deferred("Copy the steps in the format of a recipe file"),
        lambda w: w.commands.copy_recipe(),
    ),
    "copy_command": when_open(
        deferred("Copy stack as co&mmand line"),
        deferred("Copy a shell command that prunes this checkpoint in the same way"),
        lambda w: w.commands.copy_command(),
    ),
    "copy_script": when_open(
        deferred("Copy stack as &Python script"),
        deferred(
            "Copy a Python script that makes the same masks, with torch.nn.utils.prune where "
            "possible"
        ),
        lambda w: w.commands.copy_script(),
    ),
    "filter": ActionSpec(
        deferred("&Find parameters"),
        deferred("Filter modules and parameters by name"),
        lambda w: w.tree.filter.setFocus(),
        Key.Find,
        "filter",
    ),
    "settings": ActionSpec(
        deferred("&Settings…"),
        deferred("Threads, memory, appearance and other preferences"),
        lambda w: w.show_settings(),
        "Ctrl+,",
    ),
    "guide": ActionSpec(
        deferred("&User guide"),
        deferred("How to use this program"),
        lambda w: w.show_guide(),
        Key.HelpContents,
    ),
    "palette": ActionSpec(
        deferred("&Command palette…"),
        deferred("Find any command by its name"),
        lambda w: w.palette_wanted.emit(),
        "Ctrl+Shift+P",
    ),
    "shortcuts": ActionSpec(
        deferred("&Keyboard shortcuts"),
        deferred("All keyboard shortcuts"),
        lambda w: w.shortcuts_wanted.emit(),
        "Ctrl+F1",
    ),
    "demo": ActionSpec(
        deferred("Open the &demo"),
        deferred("A small network that recognizes digits, with a recipe"),
        lambda w: w.commands.open_demo(),
        icon="demo",
    ),
    "last_crash": ActionSpec(
        deferred("&Last crash…"),
        deferred("Details of the last crash, for a report"),
        lambda w: w.show_last_crash(),
        when=lambda w: w.last_crash is not None,
    ),
    "about": ActionSpec(
        deferred("&About Prune GUI"),
        deferred("Versions of the program and its libraries"),
        lambda w: w.show_about(),
    ),
}
