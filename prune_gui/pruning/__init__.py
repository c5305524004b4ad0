"""Tensors in, masks out: a drop-in for `torch.nn.utils.prune`, and more methods.

Its names are those of the reference; torch is imported when the first of them is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
