"""Entry point of ``python -m prune_gui``; does the same as ``prune-gui``.

``python -m`` puts the working folder first on the import path. A ``yaml.py`` or ``torch.py`` in a
downloaded folder would then run. With ``python -P -m prune_gui`` the folder is never on the path.
"""

import os
import sys


def _remove_working_folder_from_path() -> None:
    try:
        folder = os.getcwd()  # noqa: PTH109 - pathlib would be imported from that folder
    except OSError:  # the folder is deleted; Python does not add it then
        return
    if not sys.flags.safe_path and sys.path[0] == folder:
        del sys.path[0]


if __name__ == "__main__":
    _remove_working_folder_from_path()

    from prune_gui.cli import main

    main()
