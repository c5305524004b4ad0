"""The start folder of file dialogs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prune_gui.resources import is_shipped

if TYPE_CHECKING:
    from prune_gui.session import Session


def start_folder(session: Session | None) -> Path:
    """Return the folder of the open checkpoint.

    It is the home folder without one, for the demo, and for a remote checkpoint.
    """
    if session is None or is_shipped(session.checkpoint.path):
        return Path.home()
    return session.checkpoint.location.own_folder
