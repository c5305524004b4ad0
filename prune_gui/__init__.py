"""Prune neural networks: a checkpoint and a recipe in, masks and a pruned checkpoint out.

The names below load their modules on first use, so that importing the package costs nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
