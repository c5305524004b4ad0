"""Plug-ins: third-party subclasses of `BasePruningMethod` as methods of recipes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
