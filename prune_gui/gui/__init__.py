"""The GUI; no other package imports PySide6 or pyqtgraph."""
