"""Forward passes that end at a layer and begin at the block with it, instead of whole ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from prune_gui.evaluation.calibration.layer_inputs import CONVOLUTIONS

Run = Callable[[nn.Module, Any], object]


class _Stop(BaseException):
    """Ends a forward pass; not an `Exception`, which a network may catch."""


@dataclass(eq=False)
class Chain:
    """Modules each of which gets the output of the one before, such as the blocks of a network.

    `inputs` has the input of the block at `position`, for each batch; at 0 that is not needed.
    """

    blocks: tuple[nn.Module, ...]
    position: int = 0
    inputs: dict[int, Tensor] = field(default_factory=dict)

    def run_to(self, index: int, batch: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Return the output of a block; `args` and `kwargs` are those of the first block."""
        value = self.inputs[batch] if self.position else _input(args, kwargs)
        for number in range(self.position, index + 1):
            if number == index > 0:
                self.inputs[batch] = value
            value = value.clone()  # a block may change it
            if args:
                value = _first(self.blocks[number](value, *args[1:], **kwargs))
            else:
                value = _first(self.blocks[number](**{**kwargs, next(iter(kwargs)): value}))
        return value


@dataclass(eq=False)
class Layer:
    """The modules of a weight, as a run of all batches met them.

    Attributes:
        calls: the number of calls in each batch.
        leader: the layer with the same inputs in every call that is met first; often this one.
        places: the blocks, of any container, in which all of the calls are.
        place: the chain and the number of the block from which a pass may begin.
        number: sorts layers in the order of their calls.
    """

    modules: list[nn.Module]
    calls: Counter[int] = field(default_factory=Counter)
    leader: Layer | None = None
    places: set[tuple[nn.Module, int]] | None = None
    place: tuple[Chain, int] | None = None
    number: float = 0

    @property
    def shares_inputs(self) -> bool:
        """Whether another layer, the leader, has the same inputs, whatever the weight of either.

        A weight that is used again within a batch may change the inputs of the later use.
        """
        if self.leader is None or self.leader is self:
            return False
        return self.leader.calls == self.calls and max(self.calls.values()) == 1


class ForwardPasses:
    """Shows the inputs of layers to a caller that changes weights in the order of their use.

    Each pass begins as the user's does, so that what holds around the blocks of the network holds
    for them. At the first block it goes on with that of the layer, on the output of the blocks
    before it, which have their final weights; and it ends after the last call of the layer.

    A container is a chain of blocks if each gets the output of the one before, as the same tensor,
    in all batches, and if blocks that are called so give the same output, bit for bit, for the
    first batch. Without a chain, passes begin at the input of the network.

    Attributes:
        layers: by weight, those that ran, in the order of their first calls.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: Iterable[Any],
        run: Run,
        modules: Mapping[Tensor, list[nn.Module]],
    ) -> None:
        self._model, self._batches, self._run = model, batches, run
        trace = _Trace(model, modules)
        with trace.hooks():
            for trace.batch, batch in enumerate(batches):
                trace.begin()
                run(model, batch)
        chains = {
            container: chain
            for container, chain in trace.chains().items()
            if self._is_repeatable(chain, trace.outputs[container])
        }
        numbers: dict[tuple[Chain, int], int] = {}  # of the last layer of each block
        for number, layer in enumerate(trace.layers.values()):
            places = [(chains[one], index) for one, index in layer.places or () if one in chains]
            layer.place = max(places, key=lambda place: len(place[0].blocks), default=None)
            layer.number = number
            if layer.place is not None and layer.calls[0]:
                numbers[layer.place] = number
            elif layer.place is not None:  # such as an expert that the first batch did not meet
                chain, block = layer.place
                before = [n for (one, i), n in numbers.items() if one is chain and i <= block]
                layer.number = max(before, default=number) + 0.5
        self.layers = dict(sorted(trace.layers.items(), key=lambda item: item[1].number))

    def show_inputs(self, layer: Layer, see: Callable[[nn.Module, Tensor], None]) -> None:
        """Call ``see(module, inputs)`` for each call of a layer, in all batches.

        The layers before it must have their final weights.
        """
        calls = 0

        def on_call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            nonlocal calls
            see(module, _input(args, kwargs).detach())
            calls -= 1
            if calls == 0:
                raise _Stop

        with ExitStack() as hooks:
            for module in layer.modules:
                hooks.enter_context(module.register_forward_pre_hook(on_call, with_kwargs=True))
            for number, batch in enumerate(self._batches):
                calls = layer.calls[number]
                self._run_to(layer.place, number, batch)
        if layer.place is not None:
            layer.place[0].position = layer.place[1]

    def _run_to(self, place: tuple[Chain, int] | None, number: int, batch: object) -> Any:  # noqa: ANN401
        """Run a batch, of a chain up to a block, and return the output of the block."""
        output = None

        def go_on(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            nonlocal output
            handle.remove()
            assert place is not None
            output = place[0].run_to(place[1], number, args, kwargs)
            raise _Stop

        with ExitStack() as hooks:
            if place is not None:
                first = place[0].blocks[0]
                handle = first.register_forward_pre_hook(go_on, with_kwargs=True)
                hooks.enter_context(handle)
            with suppress(_Stop):
                self._run(self._model, batch)
        return output

    def _is_repeatable(self, chain: Chain, expected: Tensor) -> bool:
        batch = next(iter(self._batches))
        output = self._run_to((chain, len(chain.blocks) - 1), 0, batch)
        chain.inputs.clear()
        return isinstance(output, Tensor) and torch.equal(output, expected)


class _Trace:
    """What a run of all batches shows of the order and the inputs of layers and blocks."""

    def __init__(self, model: nn.Module, modules: Mapping[Tensor, list[nn.Module]]) -> None:
        self.batch = 0
        self.layers: dict[Tensor, Layer] = {}
        self.outputs: dict[nn.Module, Tensor] = {}  # of the last block, in the first batch
        self._modules = modules
        self._containers: list[nn.ModuleList | nn.Sequential] = [
            one
            for one in model.modules()
            if isinstance(one, (nn.ModuleList, nn.Sequential)) and len(one) > 1
        ]
        self._broken: set[nn.Module] = set()
        self.begin()

    def begin(self) -> None:
        """Begin a batch."""
        self._inside: list[tuple[nn.Module, int]] = []
        self._values: dict[nn.Module, tuple[int, object]] = {}  # number and output of a block
        self._latest: tuple[Tensor, int, list[Layer]] | None = None  # an input, and who got it

    def chains(self) -> dict[nn.Module, Chain]:
        """Return the chains of blocks, by their container."""
        whole = (one for one in self._containers if one in self.outputs)
        return {one: Chain(tuple(one)) for one in whole if one not in self._broken}

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Follow the modules within a block."""
        with ExitStack() as hooks:
            for container in self._containers:
                for index, block in enumerate(container):
                    place = container, index
                    enter, leave = partial(self._enter, place), partial(self._leave, place)
                    hooks.enter_context(block.register_forward_pre_hook(enter, with_kwargs=True))
                    hooks.enter_context(block.register_forward_hook(leave))
            for weight, modules in self._modules.items():
                for module in modules:
                    call = partial(self._call, weight)
                    hooks.enter_context(module.register_forward_pre_hook(call, with_kwargs=True))
            yield

    def _enter(self, place: tuple[nn.Module, int], _: object, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        value = _input(args, kwargs)
        number, output = self._values.get(place[0], (-1, value))
        if number != place[1] - 1 or value is not output or not isinstance(value, Tensor):
            self._broken.add(place[0])
        self._inside.append(place)

    def _leave(self, place: tuple[nn.Module, int], _: object, args: object, output: object) -> None:
        self._inside.remove(place)
        value = _first(output)
        self._values[place[0]] = place[1], value
        if self.batch == 0 and isinstance(value, Tensor):
            self.outputs[place[0]] = value.clone()

    def _call(self, weight: Tensor, module: nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ANN401
        layer = self.layers.setdefault(weight, Layer(self._modules[weight]))
        layer.calls[self.batch] += 1
        inside = set(self._inside)
        layer.places = inside if layer.places is None else layer.places & inside
        inputs, latest = _input(args, kwargs), self._latest
        together: list[Layer] = []
        if isinstance(module, CONVOLUTIONS) or inputs.is_inference():  # has no version
            self._latest = None
        else:
            if latest and latest[0] is inputs and latest[1] == inputs._version:
                together = latest[2]
            self._latest = inputs, inputs._version, together
        leader = together[0] if together and layer not in together else layer
        layer.leader = leader if layer.leader in (None, leader) else layer
        together.append(layer)


def _input(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the user
    return next(iter((*args, *kwargs.values())), None)


def _first(values: object) -> Any:  # noqa: ANN401 - of a module of the user
    """Return the first item of a tuple or list; other values as they are."""
    return values[0] if isinstance(values, (tuple, list)) and values else values
