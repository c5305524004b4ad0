"""Finding state dicts, modules and the states of optimizers in what torch.load returns."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

import torch

from prune_gui.checkpoint.named_code import RUNS_OWN_SOURCE
from prune_gui.checkpoint.refusal import FalseClaimError
from prune_gui.checkpoint.roles import MOMENTS, is_moment
from prune_gui.checkpoint.torch.checked_calls import Arrays
from prune_gui.checkpoint.torch.pickle_machine import ForeignObject, reachable
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred, tr

if TYPE_CHECKING:
    from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint

State = Mapping[str, object]
Root = tuple[str | int, ...]


OPTIMIZER_KEYS: Final = frozenset({"state", "param_groups"})
MAX_DEPTH: Final = 16
"""The limit for the nesting of dictionaries that are searched."""
BARE_TENSOR: Final = "weight"
"""The name that is given to a tensor that is saved without one."""
AVERAGED_MODULE: Final = "ema"
"""The key under which trainers save the module with averaged weights, which they evaluate."""
CONTAINERS: Final = (dict, list, tuple, ForeignObject)
TENSOR_MAKERS: Final = ("torch._utils._rebuild_", "torch._tensor._rebuild_")
"""The start of the names of functions that build tensors."""
TOP_LEVEL_NAME: Final = "."
"""The name of the state dict at the top level of the file."""
MAX_MODULES: Final = 1 << 18
MAX_NAME_CHARS: Final = 1 << 27
"""The limits for the modules and parameters of a file, and for the total length of their names.
Those that are shared count once per name."""
MAX_ARGUMENTS: Final = 3
"""The number of arguments of a call among which the attributes of a module may be."""
MAX_MODULE_DEPTH: Final = 256
COMPILED_MODULE: Final = "torch._dynamo.eval_frame.OptimizedModule"
"""What torch.compile returns. It is pickled as a call with the original module as an argument."""


class Numbered(dict[object, object]):
    """The members of a list or tuple by the text of their indices."""


def state_dicts(content: object) -> dict[Root, State]:
    """Return every state dict in nested dictionaries, lists and records, by its path.

    A state dict is a dictionary with a tensor or numpy array under a text key, a list or tuple with
    a tensor, which is named by its index, or a module; see `module_state`. A bare tensor at the top
    counts as a state dict with one name. Optimizer states are not searched. Visits level by level,
    each object once, so that depth and cycles are harmless.
    """
    arrays = Arrays()
    bare = arrays.as_tensors({BARE_TENSOR: content})
    if isinstance(bare[BARE_TENSOR], torch.Tensor):
        return {(): cast("State", bare)}
    states: dict[Root, State] = {}
    limits = ModuleLimits()
    queue: list[tuple[Root, object]] = [((), content)]
    seen = {id(content)}
    for root, value in queue:  # the loop appends to the queue
        if is_module(value):
            module = module_state(value, limits)
            if module:
                states[root] = module
            continue
        members = _members(value)
        if isinstance(value, ForeignObject):
            limits.count_members(members)
            limits.count_members(_sequence(value))
        if members.keys() >= OPTIMIZER_KEYS or is_tensor_record(value):
            continue
        state = arrays.as_tensors(
            members
            or Numbered(
                (str(index), member)
                for index, member in enumerate(_sequence(value))
                if isinstance(member, torch.Tensor | ForeignObject)
            )
        )
        if any(isinstance(state[key], torch.Tensor) for key in state if isinstance(key, str)):
            states[root] = cast("State", state)
        if len(root) >= MAX_DEPTH:
            continue
        for key, member in _inner_containers(value, members):
            if id(member) not in seen:
                seen.add(id(member))
                queue.append(((*root, key), member))
    return states


def _inner_containers(
    value: object, members: Mapping[object, object]
) -> Iterator[tuple[str | int, object]]:
    """Yield the dictionaries, lists and records in a value by key or index; no empty ones."""
    for key, member in members.items():
        if isinstance(key, str) and isinstance(member, CONTAINERS) and member:
            yield key, member
    for index, member in enumerate(_sequence(value)):
        if isinstance(member, CONTAINERS) and member:
            yield index, member


def is_tensor_record(value: object) -> bool:
    """Return whether a value is the record of a tensor that needs code."""
    return isinstance(value, ForeignObject) and value.path.startswith(TENSOR_MAKERS)


def hidden_tensor_count(content: object, states: Mapping[Root, State]) -> int:
    """Return the number of tensors that are not in these state dicts or in an optimizer's state."""
    shown = {id(tensor) for state in states.values() for _, tensor in tensors_of(state)}
    inside = reachable([content], lambda each: not (_is_optimizer(each) or is_tensor_record(each)))
    hidden = {
        id(value) for value in inside if isinstance(value, torch.Tensor) or is_tensor_record(value)
    }
    return len(hidden - shown)


def _sequence(value: object) -> Sequence[object]:
    """Return the items of a list or tuple, also of a record; () for anything else."""
    if isinstance(value, ForeignObject):
        return value.members or value.arguments  # those of a named tuple
    return value if isinstance(value, list | tuple) else ()


def _members(value: object) -> dict[object, object]:
    """Return the items of a dictionary, or the items and attributes of a record."""
    if isinstance(value, dict):
        return value
    if isinstance(value, ForeignObject):
        attributes = attributes_of(value)
        return {**attributes, **value.items} if value.items else attributes
    return {}


def name_of(root: Root) -> str:
    """Return the name of a state dict for the user."""
    return ".".join(map(str, root)) or TOP_LEVEL_NAME


def largest(states: Mapping[Root, State]) -> Root:
    """Return the path of the state dict with the most weights.

    Ties: no list, then most tensors, then most elements, then the averaged one of two modules, then
    the first.
    """

    def size(root: Root) -> tuple[int, bool, int, int, bool]:
        tensors = [tensor for _, tensor in tensors_of(states[root])]
        is_average = isinstance(states[root], ModuleState) and root[-1:] == (AVERAGED_MODULE,)
        numel = sum(tensor.numel() for tensor in tensors)
        is_named = not isinstance(states[root], Numbered)
        return _weight_count(root, states[root]), is_named, len(tensors), numel, is_average

    return max(states, key=size)


def with_weights(states: Mapping[Root, State]) -> dict[Root, State]:
    """Return the state dicts that have weights; all of them if none has."""
    weights = {root: state for root, state in states.items() if _weight_count(root, state)}
    return weights or dict(states)


def _weight_count(root: Root, state: State) -> int:
    """Return the number of floating-point tensors of at least one dimension, without moments."""
    if is_moment(name_of(root)):
        return 0
    return sum(
        tensor.is_floating_point() and tensor.dim() > 0 and not MOMENTS.fullmatch(name)
        for name, tensor in tensors_of(state)
    )


def tensors_of(state: State) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the named tensors of a state dict in order."""
    for key, value in state.items():
        if isinstance(key, str) and isinstance(value, torch.Tensor):
            yield key, value


def with_state(content: object, root: Root, state: State) -> object:
    """Return a copy of `content`, which has no records, with `state` at `root`.

    Dictionaries on the path keep their type and attributes, such as `_metadata`; others are shared.
    """
    if isinstance(content, torch.Tensor):
        return state[BARE_TENSOR]
    path: list[Any] = [content]
    for key in root:
        path.append(path[-1][key])
    replaced = _with_members(path.pop(), state)
    for key, outer in zip(reversed(root), reversed(path), strict=True):
        if isinstance(key, int):
            replaced = type(outer)([*outer[:key], replaced, *outer[key + 1 :]])
        else:
            replaced = _copy_with(outer, {**outer, key: replaced})
    return replaced


def _with_members(value: Any, state: State) -> object:  # noqa: ANN401 - a dictionary, list or tuple
    if isinstance(value, dict):
        return _copy_with(value, state)
    numbers = {str(index): index for index in range(len(value))}
    if not state.keys() <= numbers.keys():
        return dict(state)
    members = list(value)
    for name, tensor in state.items():
        members[numbers[name]] = tensor
    return type(value)(members)


def _copy_with(model: dict[Any, Any], members: Mapping[str, object]) -> dict[Any, Any]:
    copied = copy.copy(model)
    copied.clear()
    copied.update(members)
    if hasattr(model, "__dict__"):  # copy.copy does not copy the attributes of an OrderedDict
        vars(copied).update(vars(model))
    return copied


class ModuleState(dict[str, object]):
    """The tensors of a module, named and ordered as by its `state_dict`; some may be records."""

    def __init__(self) -> None:
        super().__init__()
        self.module_classes: dict[str, str] = {}  # dotted names, by the paths of the modules


@dataclass(slots=True)
class ModuleLimits:
    """The number of modules and the total length of names that may still be visited."""

    modules: int = MAX_MODULES
    name_chars: int = MAX_NAME_CHARS

    def count_members(self, members: Sized) -> None:
        """Count the items of a dictionary of a module, whatever they are."""
        self.modules -= len(members)
        self.count(0, 0)

    def count(self, name_chars: int, depth: int) -> None:
        """Count the length of the name of a module or parameter at a depth."""
        self.name_chars -= name_chars
        if self.modules < 0 or self.name_chars < 0 or depth > MAX_MODULE_DEPTH:
            raise FalseClaimError("its modules are nested too deeply, or contain each other")


def attributes_of(record: ForeignObject) -> dict[object, object]:
    """Return the attributes of an object, a dictionary, a pair or an argument; {} if unknown."""
    state = record.state[0] if isinstance(record.state, tuple) and record.state else record.state
    if isinstance(state, dict):
        return state
    if record.path == COMPILED_MODULE and record.arguments:
        return {"_parameters": {}, "_modules": {"_orig_mod": record.arguments[0]}}
    for argument in record.arguments[:MAX_ARGUMENTS]:
        if isinstance(argument, dict) and _has_modules(argument):
            return argument
    return {}


def _has_modules(attributes: object) -> bool:
    return (
        isinstance(attributes, dict)
        and isinstance(attributes.get("_parameters"), dict)
        and isinstance(attributes.get("_modules"), dict)
    )


def is_module(value: object) -> TypeGuard[ForeignObject]:
    """Return whether a value is the record of a torch.nn.Module."""
    return isinstance(value, ForeignObject) and _has_modules(attributes_of(value))


def module_state(module: ForeignObject, limits: ModuleLimits) -> ModuleState:
    """Return the parameters and persistent buffers of a module and of all modules in it."""
    state = ModuleState()
    stack = [(module, "", 0)]
    while stack:
        record, prefix, depth = stack.pop()
        attributes = attributes_of(record)
        for kind in ("_parameters", "_buffers", "_modules"):
            if isinstance(members := attributes.get(kind), dict):
                limits.count_members(members)
        state.module_classes[prefix.removesuffix(".")] = _class_name(record, attributes)
        for name, tensor in _own_tensors(attributes):
            limits.count(len(prefix) + len(name), depth)
            state[f"{prefix}{name}"] = tensor
        children = []
        for name, child in _named(attributes, "_modules"):
            if is_module(child):
                limits.count(len(prefix) + len(name), depth)
                children.append((child, f"{prefix}{name}.", depth + 1))
        stack.extend(reversed(children))
    return state


def _class_name(record: ForeignObject, attributes: Mapping[object, object]) -> str:
    if record.path in RUNS_OWN_SOURCE:
        name = attributes.get("_graphmodule_cls_name")
        return f"torch.fx.{name if isinstance(name, str) else 'GraphModule'}"
    return record.path


def _own_tensors(attributes: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    transient = attributes.get("_non_persistent_buffers_set", ())
    if not isinstance(transient, set):
        transient = ()
    for kind in ("_parameters", "_buffers"):
        for name, tensor in _named(attributes, kind):
            is_tensor = isinstance(tensor, torch.Tensor | ForeignObject)
            if is_tensor and not (kind == "_buffers" and name in transient):
                yield name, tensor


def _named(attributes: Mapping[object, object], kind: str) -> Iterator[tuple[str, object]]:
    members = attributes.get(kind)
    if isinstance(members, dict):
        for name, member in members.items():
            if isinstance(name, str):
                yield name, member


def optimizer_states(content: object) -> list[Mapping[str, Any]]:
    """Return what `Optimizer.state_dict` returned, wherever it is in nested containers."""
    found: list[Mapping[str, Any]] = [
        value
        for value in reachable([content], lambda each: not _is_optimizer(each))
        if isinstance(value, dict)
        and _is_optimizer(value)
        and isinstance(value["state"], dict)
        and isinstance(value["param_groups"], list)
    ]
    return found[::-1]  # the last containers are visited first


def _is_optimizer(value: object) -> bool:
    return isinstance(value, dict) and value.keys() >= OPTIMIZER_KEYS


def has_moments(content: object) -> bool:
    """Return whether an optimizer state has a tensor."""
    return any(
        isinstance(value, torch.Tensor)
        for optimizer in optimizer_states(content)
        for values in optimizer["state"].values()
        if isinstance(values, dict)
        for value in values.values()
    )


NORM_BUFFERS: Final = ("running_mean", "running_var", "num_batches_tracked")
"""The buffers of normalization layers. An optimizer does not have them."""
UNCERTAIN: Final = deferred(
    "{file}: the moments of its optimizer cannot be set to zero, because it is not certain which "
    "of them belong to which parameter: {reason}. Save without this option."
)
UNNAMED_GROUPS: Final = deferred("it has several groups of parameters without names")
WITHOUT_VALUES: Final = deferred("the values of some need code to read")
OTHER_PARAMETERS: Final = deferred("its parameters are not those of the state dict {name!r}")


def moments(
    checkpoint: TorchCheckpoint, uncertain: str = UNCERTAIN
) -> dict[str, list[tuple[str, torch.Tensor]]]:
    """Return the tensors that optimizers have for each parameter, with the shape of it, by name.

    The parameters of an optimizer are numbered. They are found by the names that recent versions of
    torch add, or else by their order, if there is one group, and if number and shapes agree. If
    that is not certain, the error has the message `uncertain`, with the fields ``{file}`` and
    ``{reason}``.
    """
    found: dict[str, list[tuple[str, torch.Tensor]]] = {}
    for optimizer in optimizer_states(checkpoint.content):
        states = optimizer["state"]
        if not any(isinstance(values, dict) and values for values in states.values()):
            continue
        for number, name in _names(checkpoint, optimizer["param_groups"], uncertain).items():
            values = states.get(number)
            tensors = [
                (str(key), value)
                for key, value in (values.items() if isinstance(values, dict) else ())
                if isinstance(value, torch.Tensor) and value.dim()
            ]
            if any(tensor.is_meta for _, tensor in tensors):
                raise _uncertain(checkpoint, uncertain, WITHOUT_VALUES)
            shape = checkpoint.tensors[name].shape
            if any(tuple(tensor.shape) != shape for _, tensor in tensors):
                raise _uncertain(checkpoint, uncertain, OTHER_PARAMETERS)
            found.setdefault(name, []).extend(tensors)
    return found


def _names(
    checkpoint: TorchCheckpoint, groups: Sequence[object], uncertain: str
) -> dict[object, str]:
    named: dict[object, str] = {}
    known = {
        alias: info.name
        for info in checkpoint.tensors.values()
        for alias in (info.name, *info.aliases)
    }
    numbers: list[object] = []
    for group in groups:
        match group:
            case {"params": list() as params, "param_names": list() as names}:
                if len(params) != len(names) or not all(name in known for name in names):
                    raise _uncertain(checkpoint, uncertain, OTHER_PARAMETERS)
                named.update(
                    (number, known[name]) for number, name in zip(params, names, strict=True)
                )
            case {"params": list() as params}:
                if numbers:
                    raise _uncertain(checkpoint, uncertain, UNNAMED_GROUPS)
                numbers = params
            case _:
                raise _uncertain(checkpoint, uncertain, OTHER_PARAMETERS)
    if not numbers:
        return named
    if named:
        raise _uncertain(checkpoint, uncertain, UNNAMED_GROUPS)
    ordered = list(_parameters(checkpoint))
    if len(ordered) != len(numbers):
        raise _uncertain(checkpoint, uncertain, OTHER_PARAMETERS)
    return dict(zip(numbers, ordered, strict=True))


def _parameters(checkpoint: TorchCheckpoint) -> Iterator[str]:
    dense = [info for info in checkpoint.tensors.values() if info.special is None]
    values = {info.name: checkpoint.state.get(info.name) for info in dense}
    is_marked = any(isinstance(value, torch.nn.Parameter) for value in values.values())
    for name, value in values.items():
        is_parameter = (
            isinstance(value, torch.nn.Parameter)
            if is_marked
            else isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and name.rpartition(".")[2] not in NORM_BUFFERS
        )
        if is_parameter:
            yield name


def _uncertain(checkpoint: TorchCheckpoint, message: str, reason: str) -> CheckpointError:
    return CheckpointError(
        message, file=checkpoint.path.name, reason=tr(reason, name=checkpoint.state_dict)
    )
