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
        first, *others = (*args, *kwargs.values())
        names = tuple(kwargs) if not args else ()
        value = self.inputs[batch] if self.position else first
        for number in range(self.position, index + 1):
            if number == index > 0:
                self.inputs[batch] = value
            given = value.clone()  # a block may change it
            if args:
                output = self.blocks[number](given, *args[1:], **kwargs)
            else:
                output = self.blocks[number](**dict(zip(names, (given, *others), strict=True)))
            value = _first(output)
        return value


@dataclass(eq=False)
class Layer:
    """The modules of a weight, as a run of all batches met them.

    Attributes:
        calls: the number of calls in each batch.
        leader: the layer with the same inputs in every call that is met first; often this one.
        places: the blocks, of any container, in which all of the calls are.
        place: the chain and the number of the block from which a pass may begin.
    """

    modules: list[nn.Module]
    calls: Counter[int] = field(default_factory=Counter)
    leader: Layer | None = None
    places: set[tuple[nn.Module, int]] | None = None
    place: tuple[Chain, int] | None = None
    order: tuple[int, int] = (0, 0)

    @property
    def shares_inputs(self) -> bool:
        """Whether the layer has the same inputs as its leader, which is another one."""
        return self.leader not in (None, self) and self.leader.calls == self.calls


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
        begin: dict[Chain, int] = {}
        for number, layer in enumerate(trace.layers.values()):
            places = [(chains[one], index) for one, index in layer.places or () if one in chains]
            layer.place = max(places, key=lambda place: len(place[0].blocks), default=None)
            layer.order = number, 0
            if layer.place is not None:
                chain, index = layer.place
                layer.order = begin.setdefault(chain, number), index
        # the first batch may have missed layers of early blocks, such as experts
        self.layers = dict(sorted(trace.layers.items(), key=lambda item: item[1].order))

    def show_inputs(self, layer: Layer, see: Callable[[nn.Module, Tensor], None]) -> None:
        """Call ``see(module, inputs)`` for each call of a layer, in all batches.

        The layers before it must have their final weights.
        """
        calls = 0

        def on_call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            nonlocal calls
            see(module, next(iter((*args, *kwargs.values()))).detach())
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
                    enter, leave = (
                        partial(of, container, index) for of in (self._enter, self._leave)
                    )
                    hooks.enter_context(block.register_forward_pre_hook(enter, with_kwargs=True))
                    hooks.enter_context(block.register_forward_hook(leave))
            for weight, modules in self._modules.items():
                for module in modules:
                    call = partial(self._call, weight)
                    hooks.enter_context(module.register_forward_pre_hook(call, with_kwargs=True))
            yield

    def _enter(
        self,
        container: nn.ModuleList | nn.Sequential,
        index: int,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        value = next(iter((*args, *kwargs.values())), None)
        number, output = self._values.get(container, (-1, value))
        if number != index - 1 or value is not output or not isinstance(value, Tensor):
            self._broken.add(container)
        self._inside.append((container, index))

    def _leave(
        self,
        container: nn.ModuleList | nn.Sequential,
        index: int,
        module: nn.Module,
        args: object,
        output: object,
    ) -> None:
        self._inside.remove((container, index))
        value = _first(output)
        self._values[container] = index, value
        if index == len(container) - 1 and self.batch == 0 and isinstance(value, Tensor):
            self.outputs[container] = value.clone()

    def _call(
        self, weight: Tensor, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        layer = self.layers.setdefault(weight, Layer(self._modules[weight]))
        layer.calls[self.batch] += 1
        inside = set(self._inside)
        layer.places = inside if layer.places is None else layer.places & inside
        inputs: Tensor = next(iter((*args, *kwargs.values())))
        together: list[Layer] = []
        if isinstance(module, CONVOLUTIONS) or inputs.is_inference():  # has no version
            self._latest = None
        else:
            latest = self._latest
            if latest and latest[0] is inputs and latest[1] == inputs._version:
                together = latest[2]
            self._latest = inputs, inputs._version, together
        leader = together[0] if together and layer not in together else layer
        layer.leader = leader if layer.leader in (None, leader) else layer
        together.append(layer)


def _first(values: object) -> Any:  # noqa: ANN401 - of a module of the user
    """Return the first item of a tuple or list; other values as they are."""
    return values[0] if isinstance(values, (tuple, list)) and values else values
