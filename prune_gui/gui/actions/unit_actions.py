"""The actions about the units of the network and what is pruned of each parameter."""

from __future__ import annotations

from typing import Final

from prune_gui.gui.actions.action_spec import ActionSpec, has_own_table, has_step, is_open
from prune_gui.language import deferred


def _grouping(by: str, text: str, tip: str) -> ActionSpec:
    return ActionSpec(
        f"group_by_{by}",
        text,
        tip,
        lambda window: window.commands.preferences.change("group_by", by),
        checked=lambda window: window.commands.settings.group_by == by,
    )


UNIT_ACTIONS: Final = (
    _grouping(
        "module",
        deferred("Group tree &by module"),
        deferred("Show the parameters below their modules"),
    ),
    _grouping(
        "space",
        deferred("&Group tree by unit"),
        deferred("Show the parameters below the units that they have, such as neurons and heads"),
    ),
    ActionSpec(
        "take_shares",
        deferred("Take the shares of the step"),
        deferred("Load the step into the form with the share that it prunes of each parameter"),
        lambda w: w.draft.take_shares((w.stack.current or 0) + 1),
        when=has_step,
        in_stack=True,
    ),
    ActionSpec(
        "use_table",
        deferred("Use arc&hitecture table…"),
        deferred("Take the coupled units from a table of your own, a YAML file"),
        lambda w: w.commands.use_table(),
        when=is_open,
    ),
    ActionSpec(
        "use_built_in_table",
        deferred("Use built-&in table"),
        deferred("Take the coupled units from the tables of this program again"),
        lambda w: w.workbench.edit(lambda session: session.use_table(None)),
        when=has_own_table,
    ),
)
"""Each with its name in a menu of `menus`."""
