"""Attributes of pruned modules that are computed from `_orig` and `_mask` whenever they are read.

torch computes the pruned tensor in a hook before the forward pass of its module. Programs that read
the attribute without calling the module, as `nn.MultiheadAttention` reads `out_proj.weight` and a
tied output layer the weight of an embedding, then get the tensor of an earlier pass: old weights,
whose graph a backward pass has already freed. As in `torch.nn.utils.parametrize`, the class of a
pruned module is therefore a subclass of its own, with a property of the name of the parameter.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakValueDictionary

from torch import Tensor, nn
from torch.nn.utils import prune as reference
from torch.nn.utils.parametrize import is_parametrized

from prune_gui.pruning.modules.masking import keep

ORIG, MASK = "_orig", "_mask"
NAMES: Final = "_computed_names"
"""The attribute of the subclasses with the names of the computed attributes."""
FLAT_WEIGHTS: Final = "_flat_weights"
"""The attribute of recurrent modules with a list of all their weights."""

_subclasses: WeakValueDictionary[tuple[type[nn.Module], tuple[str, ...]], type[nn.Module]] = (
    WeakValueDictionary()
)


def make_computed(module: nn.Module, name: str) -> None:
    """Let a module compute the attribute `name` whenever it is read."""
    base, names = _split(_class(module))
    if name in names or isinstance(vars(type(module)).get(name), property):
        return
    vars(module).pop(name, None)  # what torch or an earlier version stored
    _set_class(module, _computing(base, (*names, name)))


def make_stored(module: nn.Module, name: str) -> None:
    """Let a module have an attribute or a parameter `name` again, as before `make_computed`."""
    base, names = _split(_class(module))
    if not names:
        return
    names = tuple(other for other in names if other != name)
    _set_class(module, _computing(base, names) if names else base)
    if not names and isinstance(module, nn.RNNBase):
        module._flat_weights = _flat_weights(module)


def _class(module: nn.Module) -> type[nn.Module]:
    """Return the class of a module, without that of its own which `parametrize` gave it."""
    cls = type(module)
    return cls.__bases__[0] if is_parametrized(module) else cls


def _set_class(module: nn.Module, cls: type[nn.Module]) -> None:
    """Set the class of a module; that of `parametrize` stays above it."""
    if is_parametrized(module):
        type(module).__bases__ = (cls,)
    else:
        module.__class__ = cls


def _split(cls: type[nn.Module]) -> tuple[type[nn.Module], tuple[str, ...]]:
    """Return the class of a module before it was pruned, and the names of computed attributes."""
    names = vars(cls).get(NAMES, ())
    return (cls.__bases__[0], names) if names else (cls, ())


def _computing(base: type[nn.Module], names: tuple[str, ...]) -> type[nn.Module]:
    """Return a subclass that computes attributes; it has the name of its base class."""
    cls = _subclasses.get((base, names))
    if cls is None:
        members: dict[str, Any] = {
            "__module__": base.__module__,
            "__qualname__": base.__qualname__,
            "__doc__": base.__doc__,
            "__reduce_ex__": _reduce_ex,
            NAMES: names,
        }
        members |= _properties(base, names)
        cls = _subclasses[base, names] = type(base.__name__, (base,), members)
    return cls


def _properties(cls: type[nn.Module], names: Iterable[str]) -> dict[str, property]:
    """Return the properties of modules of a class, some of whose parameters are pruned."""
    found = {name: _property(name) for name in names}
    if issubclass(cls, nn.RNNBase):
        found[FLAT_WEIGHTS] = property(_flat_weights, _ignore)
    return found


def _property(name: str) -> property:
    def get(module: nn.Module) -> Any:  # noqa: ANN401 - as of any module
        if name + MASK not in module._buffers:  # while pruning is removed
            return nn.Module.__getattr__(module, name)
        hooks: Iterable[Any] = module._forward_pre_hooks.values()
        for hook in hooks:
            if isinstance(hook, reference.BasePruningMethod) and hook._tensor_name == name:
                return hook.apply_mask(module)  # type: ignore[no-untyped-call]
        return keep(getattr(module, name + ORIG), getattr(module, name + MASK))

    def delete(module: nn.Module) -> None:  # torch does, before it stores the parameter again
        make_stored(module, name)

    return property(get, _ignore, delete)


def _ignore(module: nn.Module, value: object) -> None:
    """Do nothing, since torch's hooks set the attribute to what it is."""


def _flat_weights(module: nn.RNNBase) -> list[Tensor | None]:
    names: Any = module._flat_weights_names
    return [getattr(module, name, None) for name in names]


def _reduce_ex(module: nn.Module, protocol: int) -> Any:  # noqa: ANN401 - of pickle
    """Pickle and copy a module without its own class, which no program can import."""
    base, names = _split(type(module))
    reduced: Any = super(type(module), module).__reduce_ex__(protocol)
    function, arguments, *rest = reduced
    if function in (copyreg.__newobj__, copyreg._reconstructor):  # type: ignore[attr-defined]
        return new_computing, (base, names), *rest
    return function, arguments, *rest


def new_computing(base: type[nn.Module], names: Iterable[str]) -> nn.Module:
    """Return a module without attributes, for pickle."""
    cls = _computing(base, tuple(names))
    return cls.__new__(cls)
