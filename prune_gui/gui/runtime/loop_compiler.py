"""Compiles the loops of the engine in a process beside the program, when they are used first."""

from __future__ import annotations

import logging
from typing import Final

from PySide6.QtCore import QObject, QProcess, Signal

from prune_gui.isolated.processes import isolated_command
from prune_gui.pruning.kernels.loop import read_cache_again

log = logging.getLogger(__name__)

END_TIMEOUT_MS: Final = 2000
"""Timeout for the end of the killed process."""


class LoopCompiler(QObject):
    """Starts the process once, if it is needed, and follows it."""

    advanced = Signal(int, int)  # (done, total) parts are compiled; 0, 0 at the end

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process = process = QProcess(self)
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._finish)
        process.errorOccurred.connect(lambda error: log.warning("Compilation failed: %s", error))
        process.setWorkingDirectory("/")

    def start(self) -> None:
        """Start the process, unless it was started before."""
        if not self._process.program():
            program, *arguments = isolated_command("prune_gui.worker.warm_up")
            self._process.start(program, arguments)

    def stop(self) -> None:
        self._process.blockSignals(True)
        self._process.kill()
        self._process.waitForFinished(END_TIMEOUT_MS)

    def _read(self) -> None:
        read_cache_again()
        for line in bytes(self._process.readAllStandardOutput().data()).split(b"\n"):
            match line.split():
                case [done, total] if done.isdigit() and total.isdigit():
                    self.advanced.emit(int(done), int(total))

    def _finish(self, exit_code: int) -> None:
        errors = bytes(self._process.readAllStandardError().data()).decode(errors="replace")
        if exit_code:  # loops are then compiled when they are needed
            log.warning("The compilation of loops ended with exit code %d: %s", exit_code, errors)
        self.advanced.emit(0, 0)
