"""The optimizer states of a torch file: which of their tensors belong to which parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch

from prune_gui.checkpoint.torch.checkpoint import TorchCheckpoint
from prune_gui.checkpoint.torch.state_dict_search import optimizer_states
from prune_gui.errors import CheckpointError
from prune_gui.language import deferred, tr

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
