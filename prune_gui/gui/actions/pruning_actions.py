"""The actions of the menus View and Prune, by name."""

from __future__ import annotations

from typing import Final

from prune_gui.gui.actions.action_spec import (
    ActionSpec,
    Key,
    has_picture,
    has_step,
    has_table,
    of_step,
    starts_from_zeros,
    when_open,
)
from prune_gui.gui.stack.stack_panel import AGAIN_TIP, ZEROS_TIP
from prune_gui.language import deferred, tr


def _choice(setting: str, value: str, text: str, tip: str) -> ActionSpec:
    """Specify the action that gives a setting a value."""
    return ActionSpec(
        text,
        tip,
        lambda w: w.commands.preferences.change(setting, value),
        checked=lambda w: getattr(w.commands.settings, setting) == value,
    )


PRUNING_ACTIONS: Final[dict[str, ActionSpec]] = {
    "copy_picture": ActionSpec(
        deferred("&Copy picture"),
        deferred("Copy the current picture, with its title and legend"),
        lambda w: w.exporter.copy_picture(w.views.front),
        "Ctrl+Shift+C",
        when=has_picture,
    ),
    "copy_table": ActionSpec(
        deferred("Copy &table"),
        deferred("Copy the values of the current picture, for a spreadsheet"),
        lambda w: w.exporter.copy_table(w.views.front),
        when=has_table,
    ),
    "save_table": ActionSpec(
        deferred("Sa&ve table as…"),
        deferred("Save the values of the current picture as CSV"),
        lambda w: w.exporter.save_table(w.views.front),
        when=has_table,
    ),
    "group_by_module": _choice(
        "group_by",
        "module",
        deferred("Group tree &by module"),
        deferred("Show the parameters below their modules"),
    ),
    "group_by_space": _choice(
        "group_by",
        "space",
        deferred("&Group tree by unit"),
        deferred("Show the parameters below the units that they have, such as neurons and heads"),
    ),
    "copy_modules": when_open(
        deferred("Copy &modules as table"),
        deferred("Copy the parameters that the tree shows, for a spreadsheet"),
        lambda w: w.exporter.copy_table(w.tree),
    ),
    "save_modules": when_open(
        deferred("Save m&odules as table…"),
        deferred("Save the parameters that the tree shows as CSV"),
        lambda w: w.exporter.save_table(w.tree),
    ),
    "next_parameter": when_open(
        deferred("&Next parameter"),
        deferred("Show the next parameter of the file"),
        lambda w: w.workbench.choose_adjacent(+1),
        "Ctrl+PgDown",
    ),
    "previous_parameter": when_open(
        deferred("Pr&evious parameter"),
        deferred("Show the previous parameter of the file"),
        lambda w: w.workbench.choose_adjacent(-1),
        "Ctrl+PgUp",
    ),
    "next_pane": ActionSpec(
        deferred("Next p&ane"),
        deferred("Go to the next pane, and restore the focus in it"),
        lambda w: w.panes.go(+1),
        "F6",
    ),
    "previous_pane": ActionSpec(
        deferred("Previo&us pane"),
        deferred("Go to the previous pane, and restore the focus in it"),
        lambda w: w.panes.go(-1),
        "Shift+F6",
    ),
    "theme_system": _choice(
        "theme", "system", deferred("&System default"), deferred("The colours of the system")
    ),
    "theme_light": _choice("theme", "light", deferred("&Light"), deferred("Light colours")),
    "theme_dark": _choice("theme", "dark", deferred("&Dark"), deferred("Dark colours")),
    "reset": ActionSpec(
        deferred("&Reset layout"),
        deferred("Restore the default layout of the docks"),
        lambda w: w.docks.reset(),
        icon="fit",
    ),
    "preview": when_open(
        deferred("&Preview"),
        deferred("Show in every view what the step in the form would do"),
        lambda w: w.draft.preview.toggle(),
        "Ctrl+P",
        "preview",
        checked=lambda w: w.draft.preview.isChecked(),
    ),
    "add_step": when_open(
        lambda w: tr("&Apply to step") if w.draft.editing else tr("&Add step"),
        deferred("Add the previewed step to the stack, or apply the edited one"),
        lambda w: w.draft.add(),
        "Ctrl+Return",
        "add",
    ),
    "edit_step": of_step(
        deferred("&Edit step"),
        deferred("Load the step into the form"),
        lambda w: w.stack.edit(),
        "Shift+F2",
        "edit",
    ),
    "edit_amount": ActionSpec(
        deferred("Edit amou&nt"),
        deferred("Change the amount of the step in its card"),
        lambda w: w.stack.edit_amount(),
        "F2",
        when=lambda w: w.stack.has_amount,
        in_stack=True,
    ),
    "take_shares": of_step(
        deferred("Take the shares of the step"),
        deferred("Load the step into the form with the share that it prunes of each parameter"),
        lambda w: w.draft.take_shares((w.stack.current or 0) + 1),
    ),
    "duplicate": of_step(
        deferred("Dup&licate step"),
        deferred("Insert a copy of the step after it"),
        lambda w: w.stack.duplicate(),
        "Ctrl+D",
        "duplicate",
    ),
    "move_up": ActionSpec(
        deferred("Move step &up"),
        deferred("Apply the step earlier"),
        lambda w: w.stack.move_step(-1),
        "Alt+Up",
        "up",
        lambda w: bool(w.stack.current),
        in_stack=True,
    ),
    "move_down": ActionSpec(
        deferred("Move step &down"),
        deferred("Apply the step later"),
        lambda w: w.stack.move_step(+1),
        "Alt+Down",
        "down",
        lambda w: has_step(w) and w.stack.current != w.stack.last,
        in_stack=True,
    ),
    "switch_step": of_step(
        deferred("S&witch step on or off"),
        deferred("Switch the step off, or on again; its position does not change"),
        lambda w: w.stack.switch(),
        "Space",
    ),
    "remove": of_step(
        deferred("Re&move step"),
        deferred("Take the step out of the stack"),
        lambda w: w.stack.remove(),
        Key.Delete,
        "remove",
    ),
    "clear_stack": ActionSpec(
        deferred("Remo&ve all steps"),
        deferred("Start again with an empty stack; undo restores the steps"),
        lambda w: w.workbench.edit(lambda session: session.clear()),
        when=has_step,
    ),
    "protect": when_open(
        deferred("Pr&otect selected parameters"),
        deferred("Protect the selected parameters from all steps, or stop protecting them"),
        lambda w: w.tree.toggle_protection(),
        "Ctrl+L",
        "lock",
    ),
    "start_from_zeros": when_open(
        deferred("&Zeros in the file count as pruned"),
        ZEROS_TIP,
        lambda w: w.workbench.edit(
            lambda session: session.start_from_zeros(on=not starts_from_zeros(w))
        ),
        checked=starts_from_zeros,
    ),
    "own_recipe": ActionSpec(
        deferred("Appl&y the past steps again"),
        AGAIN_TIP,
        lambda w: w.workbench.edit(lambda session: session.apply_past_recipe()),
        when=lambda w: bool(w.session and w.session.past_steps),
    ),
    "use_table": when_open(
        deferred("Use arc&hitecture table…"),
        deferred("Take the coupled units from a table of your own, a YAML file"),
        lambda w: w.commands.use_table(),
    ),
    "trace_network": when_open(
        deferred("Trace the network…"),
        deferred("Find the coupled units of any network by running its code once"),
        lambda w: w.commands.trace_network(),
    ),
    "use_built_in_table": ActionSpec(
        deferred("Use built-&in table"),
        deferred("Take the coupled units from the tables of this program again"),
        lambda w: w.workbench.edit(lambda session: session.use_table(None)),
        when=lambda w: bool(w.session and w.session.recipe.table),
    ),
    "save_preset": ActionSpec(
        deferred("Save stac&k as a preset…"),
        deferred("Save the steps under a name, to add them to any stack"),
        lambda w: w.save_preset(),
        when=lambda w: w.stack.last >= 0,
    ),
    "manage_presets": ActionSpec(
        deferred("Mana&ge presets…"),
        deferred("Rename and remove presets of your own"),
        lambda w: w.show_presets(),
    ),
    "evaluate": when_open(
        deferred("Evaluate…"),
        deferred("See what the file and the stack are worth by your own measure"),
        lambda w: w.docks.toggle("Evaluate"),
        "Ctrl+Shift+E",
    ),
    "sweep": when_open(
        deferred("&Sweep…"),
        deferred("Try several amounts of a step, side by side"),
        lambda w: w.show_sweep(),
    ),
    "batch": when_open(
        deferred("&Batch…"),
        deferred("Apply the stack to several checkpoints, one after the other"),
        lambda w: w.show_batch(),
    ),
    "reconstruct": when_open(
        deferred("Reconstruct…"),
        deferred("Prune the model of a folder block by block, with calibration data"),
        lambda w: w.show_reconstruct(),
    ),
    "load_methods": ActionSpec(
        deferred("Load methods &from a file…"),
        deferred("Run a Python file and offer the pruning methods in it"),
        lambda w: w.commands.load_methods(),
    ),
    "resolve": when_open(
        deferred("&Recompute"),
        deferred("Recompute the stack after it was cancelled"),
        lambda w: w.workbench.resolve(),
        "F5",
    ),
    "cancel": ActionSpec(
        deferred("&Cancel"),
        deferred("Cancel the running job and change nothing"),
        lambda w: w.status.cancel(),
        "Esc",
        "cancel",
        lambda w: w.status.busy,
    ),
}
