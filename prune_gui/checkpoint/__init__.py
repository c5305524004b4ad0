"""Checkpoints: reading tensors by name, the tree of modules, and atomic writing.

The names below load their modules on first use, so that importing the package costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
