"""The blocks of a network: which modules they are, and what each is called with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from prune_gui.errors import ReconstructionError
from prune_gui.evaluation.calibration.layer_inputs import has_rows

Forward = Callable[[nn.Module, Any], object]
"""Runs a model on a batch."""


class Stop(Exception):  # noqa: N818 - no error: what was wanted of a forward pass is known
    """Ends a forward pass."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a block is called with besides its main input, for one batch.

    The main input is passed as the first argument, whatever its name.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self, block: nn.Module, inputs: Tensor) -> Tensor:
        """Return the main output of a block."""
        output = block(inputs, *self.args, **self.kwargs)
        first: Tensor = output[0] if isinstance(output, (tuple, list)) else output
        return first


@dataclass(slots=True)
class Calls:
    """The calls of all blocks, by batch.

    Attributes:
        inputs: the main inputs of the first block.
        of_block: for each block, its calls.
    """

    inputs: list[Tensor] = field(default_factory=list)
    of_block: list[list[Call]] = field(default_factory=list)


def find_blocks(model: nn.Module) -> tuple[str, list[nn.Module]]:
    """Return the name and the modules of the list of blocks of a network.

    It is the one outermost `ModuleList` or `Sequential` of at least two modules of one class that
    have layers with weights.

    Raises:
        ReconstructionError: there is none, or there are several.
    """
    found: dict[str, list[nn.Module]] = {}
    for name, module in model.named_modules():
        if any(name.startswith(f"{outer}.") for outer in found):
            continue
        if isinstance(module, (nn.ModuleList, nn.Sequential)) and _is_list_of_blocks(module):
            found[name] = list(module)
    if len(found) != 1:
        raise ReconstructionError(
            "{model} has {count} lists of blocks ({names}), and is reconstructed along one. Give "
            "the list of modules as blocks in prune_gui.reconstruct.",
            model=type(model).__name__,
            count=len(found),
            names=", ".join(found) or "-",
        )
    return next(iter(found.items()))


def _is_list_of_blocks(modules: nn.ModuleList | nn.Sequential) -> bool:
    classes = {type(module) for module in modules}
    return len(modules) > 1 and len(classes) == 1 and sum(map(has_rows, modules[0].modules())) > 1


@torch.no_grad()
def calls_of(
    model: nn.Module, blocks: Sequence[nn.Module], batches: Iterable[Any], forward: Forward
) -> Calls:
    """Return what each block is called with, without running one.

    In place of each block, its main input passes on unchanged; nothing after the last one runs.
    So the other arguments, such as masks and positions, must not depend on the weights of blocks.

    Raises:
        ReconstructionError: there are no batches, or the model does not run its blocks one after
            another.
    """
    calls = Calls(of_block=[[] for _ in blocks])
    as_tuple = False
    for batch in batches:
        found = _pass_through(model, blocks, batch, forward, as_tuple=as_tuple)
        if found is None and not calls.inputs:  # the model takes the first of several outputs
            as_tuple = True
            found = _pass_through(model, blocks, batch, forward, as_tuple=True)
        if found is None:
            raise ReconstructionError(
                "{model} does not pass the output of each of its {count} blocks to the next one. "
                "Give the list of modules that do as blocks in prune_gui.reconstruct.",
                model=type(model).__name__,
                count=len(blocks),
            )
        inputs, of_block = found
        calls.inputs.append(inputs)
        for known, call in zip(calls.of_block, of_block, strict=True):
            known.append(_sharing(call, known[-1]) if known else call)
    if not calls.inputs:
        raise ReconstructionError("There is no calibration data: give at least one batch.")
    return calls


def _pass_through(
    model: nn.Module,
    blocks: Sequence[nn.Module],
    batch: object,
    forward: Forward,
    *,
    as_tuple: bool,
) -> tuple[Tensor, list[Call]] | None:
    """Return the main input and the calls of all blocks; None if it does not reach all of them."""
    passed: list[Tensor] = []
    calls: list[Call] = []

    def stand_in(block: nn.Module, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401
        inputs, call = _split(args, kwargs)
        if len(calls) == len(blocks) or block is not blocks[len(calls)]:
            raise Stop
        if passed and inputs is not passed[0]:
            raise Stop
        passed.append(inputs)
        calls.append(call)
        if len(calls) == len(blocks):
            raise Stop
        return (inputs,) if as_tuple else inputs

    with ExitStack() as restored:
        for block in blocks:
            restored.enter_context(_with_forward(block, partial(stand_in, block)))
        with suppress(Stop):
            forward(model, batch)
    return (passed[0], calls) if len(calls) == len(blocks) else None


@contextmanager
def _with_forward(module: nn.Module, forward: Callable[..., object]) -> Iterator[None]:
    own = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if own is not None:
            module.forward = own


def _split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Call]:
    """Return the main input of a block, its first argument, and the others."""
    if args:
        return args[0], Call(args[1:], kwargs)
    name = next(iter(kwargs))
    others = {key: value for key, value in kwargs.items() if key != name}
    return kwargs[name], Call((), others)


def _sharing(call: Call, before: Call) -> Call:
    """Return a call with the tensors of the call before where they are equal."""

    def shared(now: object, then: object) -> object:
        if isinstance(now, Tensor) and isinstance(then, Tensor):
            return then if now.shape == then.shape and torch.equal(now, then) else now
        if isinstance(now, tuple) and isinstance(then, tuple) and len(now) == len(then):
            return tuple(map(shared, now, then))
        return now

    others = {key: shared(value, before.kwargs.get(key)) for key, value in call.kwargs.items()}
    return Call(cast("tuple[Any, ...]", shared(call.args, before.args)), others)
