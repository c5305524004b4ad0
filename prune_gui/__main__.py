"""``python -m prune_gui`` is ``prune-gui``."""

from prune_gui.cli import main

if __name__ == "__main__":
    main()
