"""``python -m prune_gui`` is ``prune-gui``.

``python -m`` puts the working folder first on the import path; a ``yaml.py`` or ``torch.py`` of a
downloaded folder would run. ``python -P -m prune_gui`` never has it there.
"""

import os
import sys


def _leave_out_the_working_folder() -> None:
    try:
        folder = os.getcwd()  # noqa: PTH109 - pathlib would be imported from there
    except OSError:  # deleted: Python leaves it out itself
        return
    if not sys.flags.safe_path and sys.path[0] == folder:
        del sys.path[0]


if __name__ == "__main__":
    _leave_out_the_working_folder()

    from prune_gui.cli import main

    main()
