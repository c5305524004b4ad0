"""Prune neural networks: a checkpoint and a recipe in, masks and a pruned checkpoint out.

The names of `__init__.pyi` load their modules on first use, so that importing the package is
fast. `lazy_loader` is also imported on first use, because `__main__` must first remove the working
folder from the import path.
"""


def __getattr__(name: str) -> object:
    import lazy_loader

    lazy = lazy_loader.attach_stub(__name__, __file__)
    globals().update(zip(("__getattr__", "__dir__", "__all__"), lazy, strict=True))
    return lazy[2] if name == "__all__" else lazy[0](name)


def __dir__() -> list[str]:
    return __getattr__("__all__")
