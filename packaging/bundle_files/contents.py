"""Which of the files that PyInstaller finds belong into the bundle."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Final

UNNEEDED: Final = (
    # Headers, tests and tools for building extensions.
    "torch/bin/*",
    "torch/include/*",
    "torch/share/*",
    "torch/test/*",
    "torch/testing/_internal/distributed/*",
    "torch/testing/_internal/generated/*",
    "torch/lib/*.a",
    "torch/lib/libaoti_custom_ops*",
    "torch/lib/libbackend_with_compiler*",
    "torch/lib/libjitbackend_test*",
    "torch/lib/libtorchbind_test*",
    "torch/utils/benchmark/*",
    "torch/utils/model_dump/*",
    "torchgen/*",
    "functorch/benchmarks/*",
    "*.pyi",
    "*/tests/*",
    # Parts of Qt that the window does not use; texts of Qt in languages that it does not have.
    "PySide6/Qt/qml/*",
    "PySide6/Qt/plugins/egldeviceintegrations/*",
    "PySide6/Qt/plugins/generic/*",
    "PySide6/Qt/plugins/networkinformation/*",
    "PySide6/Qt/plugins/platforms/libqeglfs*",
    "PySide6/Qt/plugins/platforms/libqlinuxfb*",
    "PySide6/Qt/plugins/platforms/libqminimalegl*",
    "PySide6/Qt/plugins/platforms/libqvkkhrdisplay*",
    "PySide6/Qt/plugins/platforms/libqvnc*",
    "PySide6/Qt/plugins/printsupport/*",
    "PySide6/Qt/plugins/qmltooling/*",
    "PySide6/Qt/plugins/sqldrivers/*",
    "PySide6/Qt/plugins/tls/*",
    "PySide6/Qt/plugins/virtualkeyboard/*",
    "PySide6/Qt/plugins/platforminputcontexts/libqtvirtualkeyboard*",
    "PySide6/Qt/plugins/platformthemes/libqgtk3*",
    "PySide6/Qt/lib/libQt6Egl*",
    "PySide6/Qt/lib/libQt6Pdf*",
    "PySide6/Qt/lib/libQt6Qml*",
    "PySide6/Qt/lib/libQt6Quick*",
    "PySide6/Qt/lib/libQt6VirtualKeyboard*",
    "PySide6/Qt/translations/*",
    # Libraries of the system that only the theme of GTK needs.
    "libatk*",
    "libatspi*",
    "libcairo*",
    "libdatrie*",
    "libepoxy*",
    "libfribidi*",
    "libgdk*",
    "libgtk*",
    "libpango*",
    "libpixman*",
    "libthai*",
    "libXcomposite*",
    "libXcursor*",
    "libXdamage*",
    "libXinerama*",
)
NEEDED: Final = (
    "PySide6/Qt/translations/qtbase_zh_CN.qm",
    "torch/bin/torch_shm_manager*",
    "prune_gui/*",
)
"""Exceptions from UNNEEDED."""


def is_needed(path: str) -> bool:
    """Return whether the bundle needs a file; its path is relative to the folder of libraries."""
    posix = path.replace("\\", "/")
    if any(fnmatch(posix, pattern) for pattern in NEEDED):
        return True
    return not any(fnmatch(posix, pattern) for pattern in UNNEEDED)


STRIPPED: Final = (
    "libpython3.*.so*",
    "llvmlite/binding/libllvmlite.so",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libtorch_python.so",
)
"""Libraries on Linux whose symbols for debugging take more than 5 MB, and that survive `strip`."""
TORCH_TESTS: Final = (
    *("codegen", "common_methods_invocations", "common_modules", "common_nn", "common_optimizers"),
    *("common_quantization", "distributed", "generated", "jit_metaprogramming_utils", "opinfo"),
)
"""Modules of `torch.testing._internal` that only the tests of torch import."""
