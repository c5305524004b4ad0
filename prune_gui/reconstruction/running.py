"""Reconstructing a network: one block after another, each on what the pruned ones before give."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import psutil
import torch
from torch import Tensor, nn

from prune_gui.monitor import Monitor, check_cancelled
from prune_gui.reconstruction.block import BlockData, LayerError, prune_block, run_all
from prune_gui.reconstruction.networks import Call, Calls
from prune_gui.reconstruction.patterns import Pattern
from prune_gui.reconstruction.solver import ITERATIONS
from prune_gui.reconstruction.tuning import block_error, tune_block

DAMPING: Final = 0.01
RATE: Final = 1e-4


@dataclass(frozen=True, slots=True)
class Options:
    """How a network is reconstructed.

    Attributes:
        choose: whether masks are chosen in the solve where the recipe ranks absolute weights;
            False for the masks of the recipe.
        damping: see `prune_gui.reconstruction.solver.damped`.
        iterations: the limit of those that choose a mask.
        tuning_steps: steps of Adam per block after the solve; 0 for none.
        rate: the highest learning rate of these.
        seed: of the order of batches in tuning.
    """

    choose: bool = True
    damping: float = DAMPING
    iterations: int = ITERATIONS
    tuning_steps: int = 0
    rate: float = RATE
    seed: int = 0


@dataclass(frozen=True, slots=True)
class BlockError:
    """What pruning costs a block and all before it: |Y - Y_dense|^2 / |Y_dense|^2.

    Attributes:
        number: of the block, from 0.
        layers: see `LayerError`.
        before, after: the error of its outputs before and after tuning.
    """

    number: int
    layers: tuple[LayerError, ...]
    before: float
    after: float


@dataclass(slots=True)
class Reconstruction:
    """The result: the errors of all blocks, in order."""

    blocks: list[BlockError] = field(default_factory=list)

    @property
    def layers(self) -> list[LayerError]:
        """The errors of all layers, in order."""
        return [layer for block in self.blocks for layer in block.layers]


@dataclass(slots=True)
class Pace:
    """The time that a run will take, from what it reports; blocks of earlier runs do not count."""

    last: float = field(default_factory=time.monotonic)
    _pruned: int = 0
    _seconds: float = 0.0
    _is_pruning: bool = False

    def take(self, found: LayerError | BlockError) -> None:
        """Take what is reported, when it is."""
        if isinstance(found, LayerError):
            self._is_pruning = True
            return
        now = time.monotonic()
        if self._is_pruning:
            self._pruned += 1
            self._seconds += now - self.last
        self._is_pruning, self.last = False, now

    def seconds_left(self, blocks: int) -> float | None:
        """Return how long some more blocks take; None if none was pruned yet."""
        return self._seconds / self._pruned * blocks if self._pruned else None


def memory_in_use(device: torch.device) -> int:
    """Return the bytes that this program has in use there, without mapped files."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    found = psutil.Process().memory_info()
    return int(found.rss - getattr(found, "shared", 0))


class Blocks(Protocol):
    """The blocks of a network, wherever their weights are."""

    def __len__(self) -> int: ...

    def finished(self, number: int) -> BlockError | None:
        """Return the errors of a block that an earlier run pruned; None if there is none."""

    def dense(self, number: int) -> nn.Module:
        """Return a block with its dense weights."""

    def pruned(self, number: int) -> nn.Module:
        """Return a block with the weights of an earlier run."""

    def full_name(self, number: int, name: str) -> str:
        """Return the name in the network of a parameter of a block."""

    def patterns(self, number: int) -> Mapping[str, Pattern]:
        """Return the patterns by name of a parameter in a block."""

    def keep(self, block: nn.Module, found: BlockError, masks: Mapping[str, Tensor]) -> None:
        """Keep the weights that a block has now, and round them to those that are kept."""

    def release(self, number: int) -> None:
        """Forget the weights of a block that are kept elsewhere."""


@torch.no_grad()
def reconstruct_blocks(
    blocks: Blocks,
    calls: Calls,
    options: Options,
    monitor: Monitor,
    report: Callable[[LayerError | BlockError], object],
) -> Reconstruction:
    """Prune all blocks in order, except for those that an earlier run finished.

    Two copies of one block are in memory, and three outputs of a block for all batches. The inputs
    of `calls` are used up.
    """
    result = Reconstruction()
    inputs, dense_inputs = list(calls.inputs), list(calls.inputs)
    calls.inputs.clear()
    with monitor.in_charge():
        for number in range(len(blocks)):
            monitor.advance()
            data = BlockData(inputs, dense_inputs, calls.of_block[number])
            block = blocks.dense(number)
            found = blocks.finished(number)
            if found is not None:
                _run_in_place(block, dense_inputs, data.calls)
                block = blocks.pruned(number)
            else:
                wanted = run_all(block, dense_inputs, data.calls)
                found = _prune(block, number, blocks, data, wanted, options, report)
                dense_inputs[:] = wanted
                del wanted
            _run_in_place(block, inputs, data.calls)
            result.blocks.append(found)
            blocks.release(number)
            report(found)
            monitor.advance(1)
    return result


def _outputs(block: nn.Module, data: BlockData) -> Iterator[Tensor]:
    for batch, call in zip(data.inputs, data.calls, strict=True):
        check_cancelled()
        yield call.run(block, batch)


def _run_in_place(block: nn.Module, inputs: list[Tensor], calls: Sequence[Call]) -> None:
    """Replace the inputs of a block by its outputs, one batch after another."""
    for number, call in enumerate(calls):
        check_cancelled()
        inputs[number] = call.run(block, inputs[number])


def _prune(
    block: nn.Module,
    number: int,
    blocks: Blocks,
    data: BlockData,
    wanted: list[Tensor],
    options: Options,
    report: Callable[[LayerError | BlockError], object],
) -> BlockError:
    layers: list[LayerError] = []

    def note(layer: LayerError) -> None:
        layer = replace(layer, name=blocks.full_name(number, layer.name))
        layers.append(layer)
        report(layer)

    masks = prune_block(
        block,
        blocks.patterns(number),
        data,
        damping=options.damping,
        iterations=options.iterations,
        report=note,
    )
    before = after = block_error(_outputs(block, data), wanted)
    if options.tuning_steps:
        tune_block(
            block,
            masks,
            data.inputs,
            wanted,
            data.calls,
            steps=options.tuning_steps,
            rate=options.rate,
            seed=options.seed + number,
        )
        after = block_error(_outputs(block, data), wanted)
    found = BlockError(number, tuple(layers), before, after)
    blocks.keep(block, found, masks)
    return found
