"""The blocks of a network: which modules they are, and what each is called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from prune_gui.errors import PruneGuiError, ReconstructionError
from prune_gui.evaluation.calibration.layer_inputs import has_rows
from prune_gui.language import deferred, tr

Forward = Callable[[nn.Module, Any], object]
"""Runs a model on a batch."""
Load = Callable[[nn.Module], AbstractContextManager[object]]
"""Has the dense weights of a block, or those around all blocks, in memory within a context."""


class Stop(BaseException):
    """Ends a forward pass; not an `Exception`, which a network may catch."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a block is called with besides its main input, for one batch.

    The main input is passed as the first argument, whatever its name.

    Attributes:
        mask: of the vectors of the main input that are no padding, bool (samples, tokens); None if
            all count.
        encoder_mask: the same of the other tensors that a block gets, the outputs of an encoder.
        autocast: device type and dtype of the caller's `torch.autocast`; None outside of one.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    mask: Tensor | None = None
    encoder_mask: Tensor | None = None
    autocast: tuple[str, torch.dtype] | None = None

    def run(self, block: nn.Module, inputs: Tensor) -> Tensor:
        """Return the main output of a block, 0 for padding; the inputs stay as they are."""
        with torch.autocast(*self.autocast) if self.autocast else nullcontext():
            output: Tensor = main_of(block(inputs.clone(), *self.args, **self.kwargs))
        if self.mask is not None and output.shape[:2] == self.mask.shape:
            output = output.masked_fill(~self.mask[..., None], 0.0)
        return output

    def counted(self, read: Tensor) -> Tensor:
        """Return what a layer of the block reads, without padding."""
        is_given = any(read is one for one in (*self.args, *self.kwargs.values()))
        mask = self.encoder_mask if is_given else self.mask
        if mask is None:
            return read
        if read.dim() > 2 and read.shape[:2] == mask.shape:
            return read[mask]
        is_flat = read.dim() == 2 and len(read) == mask.numel()
        return read[mask.flatten()] if is_flat else read


def main_of(output: Any) -> Any:  # noqa: ANN401 - of a module of the user
    """Return the first of the outputs of a module; of a single one, itself."""
    return output if isinstance(output, Tensor) or not output else output[0]


@dataclass(frozen=True, eq=False)
class BlockList:
    """Modules that run one after another, each on the main output of the one before.

    Attributes:
        name: of the list in the network; of a block on its own, that of the block.
        names: of the blocks.
        first: the number of the first block among those of all lists.
    """

    name: str
    names: tuple[str, ...]
    blocks: tuple[nn.Module, ...]
    first: int = 0

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.blocks)


@dataclass(slots=True)
class Calls:
    """The calls of the blocks of a list, by batch.

    Attributes:
        inputs: the main inputs of the first block.
        of_block: for each block, its calls.
    """

    inputs: list[Tensor] = field(default_factory=list)
    of_block: list[list[Call]] = field(default_factory=list)


def find_blocks(model: nn.Module) -> list[BlockList]:
    """Return the lists of blocks of a network.

    They are the outermost `ModuleList`s of several modules of one class that have layers with
    weights, and `Sequential`s of several modules, at least two of which have. Where there are none,
    a list of one block is looked for, which the module around it may run several times, as ALBERT
    does: that module is the block.
    """
    found: dict[str, BlockList] = {}
    alone: dict[str, BlockList] = {}
    for name, module in model.named_modules():
        if any(name.startswith(outer) for outer in found) or not _has_blocks(module):
            continue
        prefix = f"{name}." if name else ""
        names, children = zip(*module.named_children(), strict=True)
        if len(children) > 1:
            paths = tuple(prefix + child for child in names)
            found[prefix] = BlockList(name or type(model).__name__, paths, children)
        elif not alone:
            around = name.rpartition(".")[0]
            alone[name] = BlockList(around, (around,), (model.get_submodule(around),))
    lists = list((found or alone).values())
    firsts = accumulate((len(one.blocks) for one in lists), initial=0)
    return [replace(one, first=first) for one, first in zip(lists, firsts, strict=False)]


def whole(model: nn.Module) -> list[BlockList]:
    """Return a network as one block."""
    return [BlockList(type(model).__name__, ("",), (model,))]


def _has_blocks(modules: nn.Module) -> bool:
    children = list(modules.children())
    layers = [sum(map(has_rows, child.modules())) for child in children]
    match modules:
        case nn.ModuleList():
            is_list = len({type(child) for child in children}) == 1 and layers[0] > 1
        case nn.Sequential():
            is_list = sum(map(bool, layers)) > 1
        case _:
            return False
    parameters = [set(child.parameters()) for child in children]
    is_shared = len(set().union(*parameters)) < sum(map(len, parameters))
    return is_list and not is_shared and len(set(children)) == len(modules)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a block got and gave in a pass of the first batch.

    `output` has all outputs but the main one; `main` is that if a later list may need it.
    """

    inputs: Tensor | None
    call: Call
    output: object
    main: Tensor | None


class Network:
    """A model whose blocks run list after list, and what runs around them.

    A pass of the dense network on the first batch shows the order of the lists, and that each block
    gets the output of the one before. Then passes in which blocks do not run give what each is
    called with: in place of a block, its input passes on, and in place of a block of an earlier
    list, the output that is known of it. That these calls are those of the dense network is
    checked on the first batch, so that a network for which it is not true is refused.

    Attributes:
        lists: in the order in which they run.
        exposed: the blocks whose outputs others than the next block get.
    """

    def __init__(
        self,
        model: nn.Module,
        lists: Sequence[BlockList],
        batches: Sequence[Any],
        forward: Forward,
        load: Load,
    ) -> None:
        """Run the model on the first batch.

        Args:
            load: see `Load`; it gets the model for what is around the blocks.

        Raises:
            ReconstructionError: there are no batches, or the blocks do not run as it must be.
        """
        if not batches:
            raise ReconstructionError("There is no calibration data: give at least one batch.")
        self._model, self._batches, self._forward, self._load = model, batches, forward, load
        self._names = {
            block: name for one in lists for block, name in zip(one, one.names, strict=True)
        }
        self._seen: dict[nn.Module, _Seen] = {}
        with load(model):
            self._begin(lists)

    def _begin(self, lists: Sequence[BlockList]) -> None:
        self._trace([block for one in lists for block in one], keeps_outputs=len(lists) > 1)
        for one in lists:
            missing = next((block for block in one if block not in self._seen), None)
            if missing is not None:
                raise self._refusal(
                    deferred("{name} does not run with these calibration data"), missing
                )
        order = list(self._seen)
        self.lists = sorted(lists, key=lambda one: order.index(one.blocks[0]))
        if order != [block for one in self.lists for block in one]:
            raise self._refusal(
                deferred("the lists of blocks do not run one after another"), order[0]
            )
        self.exposed = {one.blocks[-1] for one in self.lists[:-1]}
        for one in self.lists:
            self._check_calls(one)
        for block, seen in self._seen.items():
            self._seen[block] = _Seen(None, Call(), seen.output, None)

    def calls(self, blocks: BlockList, known: Mapping[nn.Module, Sequence[Tensor]]) -> Calls:
        """Return what the blocks of a list are called with, without running one.

        Args:
            known: the main outputs of exposed blocks of the lists before, for each batch.
        """
        calls = Calls(of_block=[[] for _ in blocks])
        with self._load(self._model):
            for number, batch in enumerate(self._batches):
                outputs = {block: by_batch[number] for block, by_batch in known.items()}
                found = self._pass_through(blocks, batch, outputs)
                if found is None:
                    reason = deferred("its blocks run in another order for some batches")
                    raise self._refusal(reason, blocks.blocks[0])
                inputs, of_block = found
                calls.inputs.append(inputs)
                for before, call in zip(calls.of_block, of_block, strict=True):
                    before.append(_sharing(call, before[-1]) if before else call)
        return calls

    def _trace(self, blocks: Sequence[nn.Module], *, keeps_outputs: bool) -> None:
        """Run the dense network on the first batch, until all blocks have run."""
        latest: dict[nn.Module, object] = {}
        batch = self._batches[0]
        follows = {after: before for before, after in pairwise(blocks)}

        def run(block: nn.Module, forward: Forward, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401
            inputs, call = _split(args, kwargs)
            if block in self._seen:
                raise self._refusal(deferred("{name} runs more than once"), block)
            if not isinstance(inputs, Tensor):
                raise self._refusal(deferred("{name} gets no tensor as its first input"), block)
            before = follows.get(block)
            is_first = before is None or self._list_of(before) != self._list_of(block)
            if not is_first and (before not in latest or latest[before] is not inputs):
                raise self._refusal(
                    deferred("{name} does not get the output of the block before"), block
                )
            latest.clear()
            with self._load(block):
                output = forward(*args, **kwargs)
            main = main_of(output)
            latest[block] = main
            self._seen[block] = _Seen(
                inputs if is_first else None,
                self._with_masks(block, call, inputs, batch),
                _with_main(output, None),
                main if keeps_outputs else None,
            )
            if len(self._seen) == len(blocks):
                raise Stop
            return output

        try:
            with _replaced(blocks, run), torch.no_grad(), suppress(Stop):
                self._forward(self._model, batch)
        except PruneGuiError:
            raise
        except Exception as error:
            raise ReconstructionError(
                "{model} cannot run the first batch of calibration data: {type}: {reason}.",
                model=type(self._model).__name__,
                type=type(error).__name__,
                reason=error,
            ) from error

    def _list_of(self, block: nn.Module) -> str:
        return self._names[block].rpartition(".")[0]

    def _check_calls(self, blocks: BlockList) -> None:
        """Find the blocks whose outputs are needed for the calls of a list."""
        earlier = [block for one in self.lists[: self.lists.index(blocks)] for block in one]
        candidates: list[set[nn.Module]] = [set(), *({one} for one in reversed(earlier))]
        for more in candidates:
            outputs = {
                block: main
                for block in self.exposed | more
                if block in earlier and (main := self._seen[block].main) is not None
            }
            found = self._pass_through(blocks, self._batches[0], outputs)
            seen = [self._seen[block] for block in blocks]
            if found is not None and _equal(found, (seen[0].inputs, [one.call for one in seen])):
                self.exposed |= more
                return
        raise self._refusal(
            deferred("what {name} gets depends on other blocks than the one before"),
            blocks.blocks[-1],
        )

    @torch.no_grad()
    def _pass_through(
        self, blocks: BlockList, batch: object, known: Mapping[nn.Module, Tensor]
    ) -> tuple[Tensor, list[Call]] | None:
        """Return the main input and the calls of a list; None if they are not reached in order."""
        passed: list[Tensor] = []
        calls: list[Call] = []
        outputs: list[object] = []
        mine = list(blocks)

        def run(block: nn.Module, forward: Forward, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401
            inputs, call = _split(args, kwargs)
            if block not in mine:
                return _with_main(self._seen[block].output, known.get(block, inputs))
            if block is not mine[len(calls)] or (passed and inputs is not passed[0]):
                raise Stop
            passed.append(inputs)
            calls.append(self._with_masks(block, call, inputs, batch))
            if len(calls) == len(mine):
                raise Stop
            if len(calls) == 1 and _has_tensors(self._seen[block].output):
                with self._load(block):  # such as the position bias of T5, which goes on
                    outputs.append(forward(*args, **kwargs))
            return _with_main(outputs[0] if outputs else self._seen[block].output, inputs)

        with _replaced(list(self._names), run), suppress(Stop):
            self._forward(self._model, batch)
        return (passed[0], calls) if len(calls) == len(mine) else None

    def _with_masks(self, block: nn.Module, call: Call, inputs: Tensor, batch: object) -> Call:
        """Return a call that knows which vectors are padding, from the masks of the batch."""
        if not isinstance(batch, Mapping):
            return call
        encoder, decoder = (
            mask.bool() if isinstance(mask, Tensor) and mask.dim() == 2 and not mask.all() else None
            for mask in (batch.get("attention_mask"), batch.get("decoder_attention_mask"))
        )
        first = next(iter(self._seen), None)
        is_decoder = (
            any(name.startswith("decoder_") for name in batch)
            and first is not None
            and self._list_of(first) != self._list_of(block)
        )
        own = decoder if is_decoder else encoder
        if own is not None and own.shape != inputs.shape[:2]:
            own = None
        return Call(call.args, call.kwargs, own, encoder if is_decoder else None, call.autocast)

    def _refusal(self, reason: str, block: nn.Module) -> ReconstructionError:
        return ReconstructionError(
            "{model} cannot be reconstructed block by block: {reason}. Give modules that run one "
            "after another as blocks in prune_gui.reconstruct.",
            model=type(self._model).__name__,
            reason=tr(reason, name=self._names[block] or type(block).__name__),
        )


@contextmanager
def _replaced(blocks: Sequence[nn.Module], run: Callable[..., object]) -> Iterator[None]:
    """Let ``run(block, forward, ...)`` take the place of each block within the context."""
    with ExitStack() as restored:
        for block in blocks:
            restored.enter_context(_with_forward(block, partial(run, block, block.forward)))
        yield


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


def _split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Call]:
    """Return the main input of a block, its first argument, and the others."""
    name = "" if args else next(iter(kwargs), "")
    inputs = args[0] if args else kwargs.get(name)
    others = {key: value for key, value in kwargs.items() if key != name}
    autocast = None
    if isinstance(inputs, Tensor) and not inputs.is_meta:
        device = inputs.device.type
        if torch.is_autocast_enabled(device):
            autocast = device, torch.get_autocast_dtype(device)
    return inputs, Call(args[1:], others, autocast=autocast)


def _with_main(output: Any, main: Tensor | None) -> object:  # noqa: ANN401 - of a module of the user
    """Return the outputs of a module with another main one."""
    return (main, *output[1:]) if isinstance(output, (tuple, list)) else main


def _has_tensors(output: object) -> bool:
    if isinstance(output, (tuple, list)):
        return any(map(_has_tensors, output))
    return isinstance(output, Tensor)


def _equal(one: object, other: object) -> bool:
    """Return whether two calls have the same tensors and numbers; objects of classes may differ."""
    match one, other:
        case Tensor(), Tensor():
            same = one.shape == other.shape and one.dtype == other.dtype
            return same and bool(torch.isclose(one, other, 0, 0, equal_nan=True).all())
        case ((tuple() | list()), (tuple() | list())):
            return len(one) == len(other) and all(map(_equal, one, other))
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
        case Call(), Call():
            return _equal((one.args, one.kwargs), (other.args, other.kwargs))
        case ((int() | float() | None), _):
            return one == other
    return type(one) is type(other)


def _sharing(call: Call, before: Call) -> Call:
    """Return a call with the tensors of the call before where they are equal."""

    def shared(now: Any, then: Any) -> Any:  # noqa: ANN401 - of a module of the user
        if isinstance(now, Tensor) and isinstance(then, Tensor):
            return then if now.shape == then.shape and torch.equal(now, then) else now
        if type(now) is tuple and isinstance(then, tuple) and len(now) == len(then):
            return tuple(map(shared, now, then))
        return now

    others = {key: shared(value, before.kwargs.get(key)) for key, value in call.kwargs.items()}
    masks = shared(call.mask, before.mask), shared(call.encoder_mask, before.encoder_mask)
    return Call(shared(call.args, before.args), others, *masks, call.autocast)
