"""Running the tasks of long work on a Dask cluster. Only this package imports `distributed`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
