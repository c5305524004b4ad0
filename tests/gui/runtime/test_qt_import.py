import subprocess
import sys

PROGRAM = """
import linecache
from prune_gui.gui.runtime.qt_import import import_qt
import_qt()
from PySide6.QtWidgets import QApplication, QLabel
import tarfile
app = QApplication([])
print(QLabel("shown").text(), tarfile.__file__ in linecache.cache)
"""


def test_the_source_of_imported_modules_is_not_read():
    for program, was_read in ((PROGRAM, False), (PROGRAM.replace("import_qt()\n", ""), True)):
        process = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert process.stdout == f"shown {was_read}\n"
