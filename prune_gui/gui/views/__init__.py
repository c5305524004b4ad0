"""What the user looks at: the chosen parameter in many ways, it beside another, and all."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
