"""Random sequences of calls of `torch.nn.utils.prune` and of our functions, compared.

After every call the two networks must have the same masks, weights, keys, hooks and state of the
random generator. If torch raises an error, ours must too, and must leave our network unchanged.
Absolute values are distinct; a call is skipped if units tie at the cut, since the choice of torch
is then undefined.
"""

import copy
import math
from dataclasses import dataclass
from types import ModuleType

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import prune as reference

from prune_gui import pruning

WIDE = (torch.float32, torch.float64)
DTYPES = (*WIDE, torch.float16, torch.bfloat16)
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative difference up to which the order of two norms in torch is undefined."""

seeds = st.integers(0, 2**31)
Target = tuple[str, str]
"""The path of a module in the network, and the name of a parameter of it."""


def distinct(size: int, seed: int) -> Tensor:
    """Return numbers whose absolute values differ even if rounded to bfloat16."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(size, generator=generator).double()
    signs = torch.randint(0, 2, (size,), generator=generator) * 2 - 1
    return 1.01**order * signs


@dataclass(frozen=True)
class Layer:
    """Description of a layer of torch, or of a bare module with a parameter of any shape."""

    kind: str
    sizes: tuple[int, ...]
    dtype: torch.dtype

    def make(self) -> nn.Module:
        if self.kind == "Parameter":
            module = nn.Module()
            module.weight = nn.Parameter(torch.empty(self.sizes, dtype=self.dtype))
            return module
        return getattr(nn, self.kind)(*self.sizes, dtype=self.dtype)


@dataclass(frozen=True)
class Network:
    """Description of a network: some layers, and a nested network of more layers."""

    outer: tuple[Layer, ...]
    inner: tuple[Layer, ...]
    seed: int
    odd: float | None

    def make(self) -> nn.Module:
        """Make the network; ``odd``, if it is a number, takes the place of one weight."""
        inner = nn.Sequential(*(layer.make() for layer in self.inner))
        net = nn.Sequential(inner, *(layer.make() for layer in self.outer))
        retrain(net, self.seed)
        if self.odd is not None:
            with torch.no_grad():
                next(net.parameters()).view(-1)[0] = self.odd
        return net


def retrain(net: nn.Module, seed: int) -> None:
    """Set all parameters to new values, and run the forward pre-hooks."""
    parameters = list(net.parameters())
    sizes = [parameter.numel() for parameter in parameters]
    with torch.no_grad():
        for parameter, part in zip(
            parameters, distinct(sum(sizes), seed).split(sizes), strict=True
        ):
            parameter.copy_(part.view(parameter.shape))
    for module in net.modules():
        for hook in module._forward_pre_hooks.values():
            hook(module, ())


@dataclass(frozen=True)
class Retrain:
    """A change of the weights between two calls."""

    seed: int

    def apply(self, package: ModuleType, net: nn.Module) -> None:
        retrain(net, self.seed)

    def is_in_doubt(self, net: nn.Module) -> bool:
        return False


@dataclass(frozen=True)
class Call:
    """A call of a function for one parameter."""

    function: str
    target: Target
    arguments: tuple[object, ...]
    scores: int | None
    seed: int

    def apply(self, package: ModuleType, net: nn.Module) -> None:
        module, name = find(net, self.target)
        given = {} if self.scores is None else {"importance_scores": self._scores(net)}
        torch.manual_seed(self.seed)
        getattr(package, self.function)(module, name, *self.arguments, **given)

    def is_in_doubt(self, net: nn.Module) -> bool:
        """Return whether the result of torch is undefined, or deliberately different from ours."""
        module, name = find(net, self.target)
        weights, mask = getattr(module, name).detach(), mask_of(module, name)
        scores = weights if self.scores is None else self._scores(net)
        if self.function == "l1_unstructured":
            return is_tied(scores[mask == 1].abs(), self.arguments[0])
        if self.function == "random_unstructured":
            torch.manual_seed(self.seed)
            drawn = torch.rand(int((mask == 1).sum()), dtype=weights.dtype)
            return weights.dtype not in WIDE or is_tied(-drawn, self.arguments[0])
        if self.function in ("ln_structured", "random_structured"):
            return self._are_channels_in_doubt(scores, mask, name + "_mask" in module._buffers)
        return False

    def _are_channels_in_doubt(self, scores: Tensor, mask: Tensor, stacked: bool) -> bool:
        amount, dim = self.arguments[0], self.arguments[-1]
        if scores.dim() == 1 and stacked and dim in (0, -1):
            return True  # torch treats the vector as one channel
        if scores.dim() < 2 or not -scores.dim() <= dim < scores.dim():
            return False
        others = [d for d in range(scores.dim()) if d != dim % scores.dim()]
        there = mask.double().sum(others) != 0
        if self.function == "random_structured":
            torch.manual_seed(self.seed)
            return is_tied(torch.rand(int(there.sum())), amount)
        if not scores[mask == 0].isfinite().all():
            return True  # torch makes NaN of these, and includes it in norms
        n, shown = self.arguments[1], scores.movedim(dim, 0)[there]
        if n == "nuc" and (scores.dim() != 3 or scores.dtype not in WIDE):
            return True
        if (n == "nuc" and not shown.isfinite().all()) or (n == "fro" and scores.dim() > 3):
            return True
        return is_tied(reference._compute_norm(shown, n, 0), amount, ROUNDING[scores.dtype])

    def _scores(self, net: nn.Module) -> Tensor:
        """Return scores that are 0 where already pruned, which torch does not ensure."""
        module, name = find(net, self.target)
        mask = mask_of(module, name)
        return distinct(mask.numel(), self.scores).view(mask.shape).to(mask.dtype) * mask


@dataclass(frozen=True)
class GlobalCall:
    """A call of `global_unstructured`."""

    targets: tuple[Target, ...]
    method: str
    amount: float
    scored: tuple[Target, ...]
    scores: int
    seed: int

    def apply(self, package: ModuleType, net: nn.Module) -> None:
        scores = {find(net, target): self._scores(net, target) for target in self.scored}
        torch.manual_seed(self.seed)
        package.global_unstructured(
            [find(net, target) for target in self.targets],
            getattr(package, self.method),
            importance_scores=scores,
            **({} if self.method == "Identity" else {"amount": self.amount}),
        )

    def is_in_doubt(self, net: nn.Module) -> bool:
        if self.method not in ("L1Unstructured", "RandomUnstructured"):
            return False
        masks = torch.cat([mask_of(*find(net, target)).view(-1) for target in self.targets])
        scores = torch.cat([self._scores(net, target).view(-1) for target in self.targets])
        if self.method == "L1Unstructured":
            return is_tied(scores[masks == 1].abs(), self.amount)
        torch.manual_seed(self.seed)
        drawn = torch.rand(int((masks == 1).sum()), dtype=scores.dtype)
        return scores.dtype not in WIDE or is_tied(-drawn, self.amount)

    def _scores(self, net: nn.Module, target: Target) -> Tensor:
        module, name = find(net, target)
        if target not in self.scored:
            return getattr(module, name).detach()
        scores = distinct(getattr(module, name).numel(), self.scores + self.targets.index(target))
        return scores.view_as(getattr(module, name)).to(getattr(module, name).dtype)


def is_tied(ranks: Tensor, amount: float, rounding: float = 0.0) -> bool:
    """Return whether the highest-ranked pruned unit ties with the next one."""
    if not isinstance(amount, int | float):
        return False
    k = reference._compute_nparams_toprune(amount, len(ranks))
    if not 0 < k < len(ranks):
        return False
    in_order = ranks.double().nan_to_num(nan=1e300, posinf=1e299).sort().values
    return not in_order[k] - in_order[k - 1] > rounding * in_order[k]


def find(net: nn.Module, target: Target) -> tuple[nn.Module, str]:
    return net.get_submodule(target[0]), target[1]


def mask_of(module: nn.Module, name: str) -> Tensor:
    return getattr(module, name + "_mask", torch.ones_like(getattr(module, name))).detach()


def targets_of(net: nn.Module) -> list[tuple[Target, tuple[int, ...]]]:
    named = {name: parameter.shape for name, parameter in net.named_parameters()}
    return [((name.rpartition(".")[0], name.rpartition(".")[2]), named[name]) for name in named]


dtypes = st.sampled_from(WIDE) | st.sampled_from(DTYPES)
sizes = st.integers(1, 4)
layers = st.one_of(
    st.builds(Layer, st.just("Linear"), st.tuples(sizes, st.integers(1, 6)), dtypes),
    st.builds(Layer, st.just("Conv1d"), st.tuples(sizes, sizes, sizes), dtypes),
    st.builds(Layer, st.just("Conv2d"), st.tuples(sizes, sizes, st.integers(1, 3)), dtypes),
    st.builds(Layer, st.just("Parameter"), st.lists(sizes, max_size=4).map(tuple), dtypes),
)
networks = st.builds(
    Network,
    st.lists(layers, min_size=1, max_size=3).map(tuple),
    st.lists(layers, max_size=2).map(tuple),
    seeds,
    st.none() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0]),
)
orders = st.sampled_from([0, 1, 2, 3, 0.5, -1, math.inf, -math.inf, "fro", "nuc"])
shares = st.floats(0, 1) | st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
rarely = st.integers(0, 29).map(lambda i: i == 17)  # hypothesis draws the bounds more often
wrong_amounts = st.sampled_from([-1, 1.5, -0.1, "half", None])


def amounts(units: int) -> st.SearchStrategy[object]:
    """Return shares and whole numbers, rarely 0 or more than `units`."""
    right = shares | st.integers(0, units // 2)
    return rarely.flatmap(lambda rare: wrong_amounts | st.just(units + 1) if rare else right)


@st.composite
def calls(draw, target: Target, shape: tuple[int, ...]) -> Call:
    function = draw(
        st.sampled_from(
            ["l1_unstructured", "random_unstructured", "custom_from_mask", "identity", "remove"]
            + ["ln_structured", "random_structured"] * (2 if len(shape) > 1 else 1)
        )
    )
    arguments: tuple[object, ...] = ()
    if function in ("l1_unstructured", "random_unstructured"):
        arguments = (draw(amounts(math.prod(shape))),)
    elif function == "custom_from_mask":
        generator = torch.Generator().manual_seed(draw(seeds))
        size = (*shape, 2) if draw(rarely) else shape
        mask = torch.rand(size, generator=generator) < draw(st.floats(0, 1))
        arguments = (mask.to(draw(st.sampled_from([torch.bool, torch.int64, torch.float32]))),)
    elif function.endswith("_structured"):
        wrong = draw(rarely)
        dim = draw(st.integers(-len(shape) - wrong, max(len(shape) - 1 + wrong, 0)))
        channels = shape[dim] if -len(shape) <= dim < len(shape) else 1
        order = (draw(orders),) if function == "ln_structured" else ()
        arguments = (draw(amounts(channels)), *order, dim)
    scored = function in ("l1_unstructured", "ln_structured") and draw(st.integers(0, 3)) == 0
    return Call(function, target, arguments, draw(seeds) if scored else None, draw(seeds))


@st.composite
def global_calls(draw, targets: list[Target], units: int) -> GlobalCall:
    chosen = draw(st.lists(st.sampled_from(targets), min_size=1, unique=True))
    scored = draw(st.lists(st.sampled_from(chosen), max_size=2, unique=True))
    methods = ["L1Unstructured", "RandomUnstructured"] * 2 + ["Identity", "RandomStructured"]
    return GlobalCall(
        tuple(chosen),
        draw(st.sampled_from(methods)),
        draw(amounts(units)),
        tuple(scored),
        draw(seeds),
        draw(seeds),
    )


Step = Retrain | Call | GlobalCall


@st.composite
def stacks(draw) -> tuple[Network, list[Step]]:
    network = draw(networks)
    targets = targets_of(network.make())
    units = sum(math.prod(shape) for _, shape in targets)
    one = st.sampled_from(targets[: draw(st.integers(1, len(targets)))])
    call = one.flatmap(lambda target: calls(*target))
    anywhere = global_calls([target for target, _ in targets], units)
    steps = st.one_of(call, call, call, anywhere, anywhere, st.builds(Retrain, seeds))
    return network, draw(st.lists(steps, min_size=3, max_size=9))


def outcome(step: Step, package: ModuleType, net: nn.Module) -> type | None:
    """Run a step; return the type of its error, or None."""
    try:
        step.apply(package, net)
    except (TypeError, ValueError, IndexError, AssertionError, AttributeError) as error:
        return type(error)
    return None


def hooks(net: nn.Module) -> dict[str, list[list[str]]]:
    """Return the names of the methods in each hook, by module."""
    return {
        path: [
            [type(method).__name__ for method in hook]
            if isinstance(hook, reference.PruningContainer)
            else [type(hook).__name__]
            for hook in module._forward_pre_hooks.values()
        ]
        for path, module in net.named_modules()
    }


def structure(net: nn.Module) -> tuple[object, ...]:
    """Return the structure of a network without its values."""
    state = {key: (tensor.dtype, tensor.shape) for key, tensor in net.state_dict().items()}
    names = [name for name, _ in net.named_parameters()]
    return list(state), state, names, hooks(net), pruning.is_pruned(net), reference.is_pruned(net)


def assert_same(ours: nn.Module, theirs: nn.Module) -> None:
    """Compare all values and signs; where pruned, the product of torch may be -0 or NaN."""
    pairs = [(ours.state_dict()[key], expected) for key, expected in theirs.state_dict().items()]
    for path, mask in theirs.named_buffers():
        module, name = path.removesuffix("_mask").rpartition(".")[::2]
        found, product = (getattr(net.get_submodule(module), name) for net in (ours, theirs))
        pairs.append((found.detach(), product.detach().masked_fill(mask == 0, 0)))
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        numbers = ~expected.isnan()
        assert torch.equal(found[numbers].signbit(), expected[numbers].signbit())


def check(network: Network, steps: list[Step]) -> None:
    """Run the steps on both networks, until an error leaves that of torch in another state."""
    ours, theirs = network.make(), network.make()
    parameters = {id(parameter) for parameter in ours.parameters()}
    for step in steps:
        if step.is_in_doubt(theirs):
            continue
        before = structure(ours), copy.deepcopy(ours.state_dict())
        removes = isinstance(step, Call) and step.function == "remove"
        mask = mask_of(*find(theirs, step.target)) if removes else None
        error = outcome(step, pruning, ours)
        drawn = torch.get_rng_state()
        assert outcome(step, reference, theirs) == error
        assert {id(parameter) for parameter in ours.parameters()} == parameters
        if error is not None:
            assert structure(ours) == before[0]
            torch.testing.assert_close(ours.state_dict(), before[1], rtol=0, atol=0, equal_nan=True)
            if structure(theirs) != structure(ours):
                return
        else:
            assert structure(ours) == structure(theirs)
            assert torch.equal(drawn, torch.get_rng_state())
            if mask is not None:
                module, name = find(theirs, step.target)
                getattr(module, name).data.masked_fill_(mask == 0, 0)
            assert_same(ours, theirs)
    assert_same(copy.deepcopy(ours), theirs)


@pytest.mark.timeout(600)  # shrinking a failing sequence takes up to five minutes
@settings(max_examples=100)
@given(stacks())
def test_a_sequence_of_calls_has_the_same_result_as_in_torch(stack):
    check(*stack)


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@given(stacks())
def test_a_thousand_sequences_have_the_same_results_as_in_torch(stack):
    check(*stack)
