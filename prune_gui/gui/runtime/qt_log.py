"""Qt's messages in the log of the program."""

from __future__ import annotations

import logging
from typing import Final

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

LEVELS: Final = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}

log = logging.getLogger("qt")


def log_qt() -> None:
    """Redirect Qt's messages to the log."""
    qInstallMessageHandler(_take)


def _take(kind: QtMsgType, _context: QMessageLogContext, message: str) -> None:
    log.log(LEVELS[kind], "%s", message)
