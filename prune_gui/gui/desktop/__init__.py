"""The integration into desktops that follow freedesktop.org: menu entry, file types, icons."""

from prune_gui.gui.desktop.files import desktop_files
from prune_gui.gui.desktop.installation import install, uninstall

__all__ = ["desktop_files", "install", "uninstall"]
