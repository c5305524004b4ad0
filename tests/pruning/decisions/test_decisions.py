"""Laws of the methods, comparison with torch, what torch does not have, and refusals."""

import math
import threading
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from targets import decide, marked, target, unread
from torch import nn
from torch.nn.utils import prune as torch_prune

from prune_gui import parallel
from prune_gui.errors import Cancelled, RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions.target import Decision
from prune_gui.pruning.methods import METHODS

SHAPES = [(7,), (6, 5), (4, 3, 2), (5, 2, 3, 3)]


def pruned(
    decision: Decision, tensor: torch.Tensor, remaining_mask: np.ndarray | None = None
) -> torch.Tensor:
    return torch.from_numpy(marked(decision, tensor, remaining_mask)).view(tensor.shape)


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@st.composite
def distinct(draw: st.DrawFn, shapes: list[tuple[int, ...]] = SHAPES) -> torch.Tensor:
    """Return a tensor without ties in absolute value, so that the mask of torch is unique."""
    shape = draw(st.sampled_from(shapes))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = torch.Generator().manual_seed(seed)
    size = math.prod(shape)
    magnitudes = torch.randperm(size, generator=generator) + 1.0
    signs = torch.randint(0, 2, (size,), generator=generator) * 2.0 - 1.0
    return (magnitudes * signs).view(shape)


@given(distinct(), st.floats(0, 1))
def test_l1_agrees_with_torch(tensor, amount):
    [decision] = decide("l1_unstructured", target(tensor), amount=amount)
    mask = torch_prune.L1Unstructured(amount).compute_mask(tensor, torch.ones_like(tensor))
    assert torch.equal(~pruned(decision, tensor), mask.bool())


@given(distinct(SHAPES[1:]), st.floats(0, 1), st.sampled_from([0, 1, 2, 3, math.inf]), st.data())
def test_ln_agrees_with_torch(tensor, amount, n, data):
    dim = data.draw(st.integers(-tensor.dim(), tensor.dim() - 1))
    [decision] = decide("ln_structured", target(tensor), amount=amount, n=n, dim=dim)
    mask = torch_prune.LnStructured(amount, n, dim).compute_mask(tensor, torch.ones_like(tensor))
    norms = torch.linalg.vector_norm(tensor.movedim(dim, 0).flatten(1).double(), n, dim=1)
    ours, theirs = pruned(decision, tensor), ~mask.bool()
    if len(norms.unique()) == len(norms):  # torch's choice among equal norms is undefined
        assert torch.equal(ours, theirs)
    assert ours.sum() == theirs.sum()


@given(st.lists(distinct(), min_size=1, max_size=4), st.floats(0, 1))
def test_a_global_step_agrees_with_torch(tensors, amount):
    scale = 1 + torch.arange(len(tensors)) / 1000  # no two tensors have a common value
    tensors = [tensor * s for tensor, s in zip(tensors, scale, strict=True)]
    modules = [nn.Module() for _ in tensors]
    for module, tensor in zip(modules, tensors, strict=True):
        module.weight = nn.Parameter(tensor.clone())
    decisions = decide(
        "l1_unstructured",
        *[target(t, str(i)) for i, t in enumerate(tensors)],
        amount=amount,
        scope="global",
    )
    torch_prune.global_unstructured(
        [(m, "weight") for m in modules], torch_prune.L1Unstructured, amount=amount
    )
    for module, tensor, decision in zip(modules, tensors, decisions, strict=True):
        assert torch.equal(~pruned(decision, tensor), module.weight_mask.bool())


@given(
    st.sampled_from(
        ["l1_unstructured", "random_unstructured", "ln_structured", "random_structured"]
    ),
    st.sampled_from(SHAPES[1:]),
    st.integers(0, 99),
    st.sampled_from(["remaining", "total", "reach"]),
    st.floats(0, 1),
)
def test_the_count_is_exact_despite_ties_and_earlier_steps(name, shape, seed, amount_of, amount):
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randint(-2, 3, shape, generator=generator).float()
    remaining_mask = torch.rand(shape, generator=generator).numpy() < 0.7
    given_target = target(tensor, remaining_mask=remaining_mask)
    # Rows of what is pruned as a whole: single elements, or channels.
    rows = -1, 1 if METHODS[name].unit == "entry" else math.prod(shape[1:])
    is_left = remaining_mask.reshape(rows).any(1)
    total, remaining = len(is_left), int(is_left.sum())
    wanted = {
        "remaining": round(amount * remaining),
        "total": round(amount * total),
        "reach": max(0, round(amount * total) - (total - remaining)),
    }[amount_of]
    arguments = {"amount": amount, "amount_of": amount_of}
    if wanted > remaining:
        with pytest.raises(RecipeError, match=f"{wanted}.*{remaining}"):
            decide(name, given_target, **arguments)
        return
    [decision] = decide(name, given_target, **arguments)
    kept = remaining_mask & ~pruned(decision, tensor, remaining_mask).numpy()
    assert (is_left & ~kept.reshape(rows).any(1)).sum() == wanted


def test_a_custom_mask_prunes_its_zeros_and_counts_remaining_elements():
    weights, mask, remaining_mask = torch.ones(4), torch.tensor([1, 0, 0, 1]), np.arange(4) != 1
    given_target = target(weights, remaining_mask=remaining_mask, file=mask)
    [decision] = decide("custom_from_mask", given_target, mask="file")
    assert pruned(decision, weights, remaining_mask).tolist() == [False, True, True, False]


@pytest.mark.parametrize("scope", ["local", "global"])
def test_random_steps_depend_on_seed_and_name_but_not_on_order(scope):
    def found(names, seed):
        targets = [target(torch.ones(200), name) for name in names]
        decisions = decide("random_unstructured", *targets, amount=0.5, scope=scope, seed=seed)
        marks = [tuple(marked(one, torch.ones(200))) for one in decisions]
        return dict(zip(names, marks, strict=True))

    first, other = found("ab", 1), found("ab", 2)
    assert found("ba", 1) == first
    assert len({*first.values(), *other.values()}) == 4


@given(st.floats(0, 1), st.integers(1, 6), st.integers(1, 9))
def test_scope_row_prunes_the_same_share_of_every_output_row(amount, rows, columns):
    weights = noise(rows, columns, 2)
    [decision] = decide("l1_unstructured", target(weights), scope="row", amount=amount)
    found = pruned(decision, weights).flatten(1)
    assert found.sum(1).tolist() == [round(amount * columns * 2)] * rows
    for row, lost in zip(weights.flatten(1).abs(), found, strict=True):
        if lost.any() and not lost.all():
            assert row[lost].max() <= row[~lost].min()


@given(st.sampled_from([1, 2, 3, 0.5, math.inf]), st.floats(0, 1))
def test_a_global_structured_step_normalises_norms_by_channel_size(n, amount):
    tensors = [noise(6, 4), noise(5, 3, 3, seed=1) * 2, noise(3, 50, seed=2)]
    targets = [target(t, str(i)) for i, t in enumerate(tensors)]
    decisions = decide("ln_structured", *targets, scope="global", amount=amount, n=n)
    rows = [tensor.flatten(1).double().abs() for tensor in tensors]
    if n == math.inf:
        means = [own.amax(1) for own in rows]
    else:  # the power mean, which is the p-norm divided by (number of elements)^(1/p)
        means = [(own**n).mean(1) ** (1 / n) for own in rows]
    expected = torch.zeros(14, dtype=torch.bool)
    expected[torch.cat(means).argsort(stable=True)[: round(amount * 14)]] = True
    pairs = zip(decisions, tensors, strict=True)
    assert torch.equal(torch.cat([pruned(*pair).flatten(1).all(1) for pair in pairs]), expected)


def test_one_number_per_input_column_multiplies_the_weights():
    weights, activations = noise(5, 4, 3, 3), torch.tensor([0.1, 5.0, -1.0, 2.0])
    [decision] = decide(
        "l1_unstructured",
        target(weights, file=activations),
        scope="row",
        amount=0.5,
        importance="file",
    )
    scores = (weights.abs() * activations.abs()[:, None, None]).flatten(1)
    expected = scores.argsort(dim=1, stable=True).argsort(dim=1) < 18
    assert torch.equal(pruned(decision, weights).flatten(1), expected)


@pytest.mark.parametrize("method", ["l1_unstructured", "ln_structured"])
def test_the_weight_delta_to_another_checkpoint_can_be_the_score(method):
    weights, before = noise(6, 8), noise(6, 8, seed=1)
    [decision] = decide(method, target(weights, base=before), amount=0.5, moved_from="base")
    [expected] = decide(method, target(weights - before), amount=0.5)
    assert torch.equal(pruned(decision, weights), pruned(expected, weights))


@pytest.mark.parametrize("scope", ["local", "row"])
def test_the_rank_of_an_element_is_that_within_its_scope(scope):
    weights = torch.tensor([[1.0, -3.0, 2.0, 2.0], [8.0, 7.0, 6.0, 5.0]])
    [decision] = decide("l1_unstructured", target(weights), scope=scope, amount=0.5)
    element_rank = decision.predicate.element_rank(3)
    assert (element_rank.score, element_rank.rank) == (2.0, 2)
    assert element_rank.ranked == {"local": 8, "row": 4}[scope]
    assert element_rank.cut == {"local": 3.0, "row": 2.0}[scope]
    assert element_rank.margin == {"local": -1.0, "row": 0.0}[scope]
    assert element_rank.pruned is (scope == "local")


def test_the_rank_of_an_element_is_that_of_its_channel():
    weights = torch.tensor([[3.0, 4.0], [1.0, 0.0], [math.nan, 1.0]])
    [decision] = decide("ln_structured", target(weights), amount=1)
    first, second, third = (decision.predicate.element_rank(place) for place in (0, 3, 4))
    assert (first.unit, first.score, first.rank, first.pruned) == ("channel 0", 5.0, 1, False)
    assert (second.score, second.cut, second.rank, second.pruned) == (1.0, 1.0, 0, True)
    assert (third.rank, third.ranked, third.pruned) == (2, 3, False)
    assert np.isnan(third.score)


@pytest.mark.parametrize(
    ("method", "parameters", "expected"),
    [
        ("l1_unstructured", {"amount": 2}, [0, 1, 1, 0]),
        ("lamp", {"amount": 2}, [0, 1, 1, 0]),
        ("erk", {"amount": 1}, [0, 0, 1, 0]),
        ("threshold", {"value": 0.2}, [0, 0, 1, 0]),
        ("n_m", {"n": 2, "m": 4, "dim": 0}, [0, 1, 1, 0]),
    ],
)
def test_scores_from_a_file_replace_the_weights(method, parameters, expected):
    weights, scores = torch.arange(1.0, 5), torch.tensor([-9.0, 0.5, 0.1, 8.0])
    [decision] = decide(method, target(weights, file=scores), importance="file", **parameters)
    assert marked(decision, weights).tolist() == expected


@given(
    st.lists(st.lists(st.integers(1, 12), max_size=3).map(tuple), min_size=1, max_size=5),
    st.floats(0, 1),
    st.sampled_from([0.0, 0.29, 0.5, 0.9, 1.0]),
    st.sampled_from(["l1_unstructured", "lamp", "erk"]),
)
def test_max_sparsity_limits_every_target_and_the_total_is_exact(shapes, amount, cap, method):
    tensors = [noise(*shape, seed=i) * 10**i for i, shape in enumerate(shapes)]
    targets = [target(tensor, str(i)) for i, tensor in enumerate(tensors)]
    parameters = {"scope": "global"} if method == "l1_unstructured" else {}
    decisions = decide(method, *targets, amount=amount, max_sparsity=cap, **parameters)
    sizes = [tensor.numel() for tensor in tensors]
    asked = round(amount * sum(sizes))
    possible = sum(math.floor(Fraction(str(cap)) * size) for size in sizes)
    assert sum(decision.pruned for decision in decisions) == min(asked, possible)
    limits = [Fraction(str(cap)) * size for size in sizes]
    assert all(d.pruned <= limit for d, limit in zip(decisions, limits, strict=True))
    missing = asked - min(asked, possible)
    assert any(f"{missing:,} fewer" in d.note for d in decisions) == (missing > 0)


@pytest.mark.parametrize(
    ("method", "shape", "parameters", "pruned"),
    [
        ("l1_unstructured", (4, 4), {"amount": 3}, 3),
        ("erk", (4, 4), {"amount": 3}, 3),
        ("ln_structured", (8, 4, 3), {"amount": 5}, 5 * 12),
        ("block", (8, 4, 3, 3), {"amount": 5}, 5 * 16),
        ("n_m", (6, 10, 3, 3), {"n": 1, "m": 4, "tail": "keep"}, 6 * 22 * 3),
        ("n_m", (6, 10, 3, 3), {"n": 1, "m": 4, "flatten": False, "tail": "keep"}, 6 * 2 * 9 * 3),
    ],
)
def test_the_count_of_a_dense_target_needs_no_reading(method, shape, parameters, pruned):
    [decision] = decide(method, unread(shape), **parameters)
    assert decision.pruned == pruned


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("threshold", {"value": 1}),
        ("threshold", {"value": 1, "relative_to": "std"}),
        ("block", {"scope": "global"}),
        ("ln_structured", {"scope": "global"}),
        ("l1_unstructured", {"scope": "global"}),
        ("lamp", {}),
        ("n_m", {}),
    ],
)
def test_progress_covers_the_whole_step_and_it_can_be_cancelled(monkeypatch, method, parameters):
    monkeypatch.setattr(parallel, "CHUNK_ELEMENTS", 400)
    every = np.ones(64 * 64, bool)
    targets = [target(noise(64, 64), name, every) for name in "ab"]
    seen: list[tuple[int, int]] = []
    decide(method, *targets, monitor=Monitor(lambda *at: seen.append(at)), **parameters)
    assert seen[-1][0] <= seen[-1][1]
    assert {total for _, total in seen if total} == {seen[-1][1]}
    assert method == "lamp" or seen[-1][0] == seen[-1][1]  # lamp may need fewer passes
    stop, reports = threading.Event(), len(seen)
    seen.clear()

    def cancel(done: int, total: int) -> None:
        seen.append((done, total))
        stop.set()

    with pytest.raises(Cancelled):
        decide(method, *targets, monitor=Monitor(cancel, stop), **parameters)
    assert len(seen) < reports


ROWS = torch.tensor([[math.nan, 1], [5, 7], [-math.inf, 2], [9, 8]])
"""Every method prunes row 1 first, then rows 3, 2 and 0."""


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("l1_unstructured", {}),
        ("lamp", {}),
        ("ln_structured", {"dim": 0}),
        ("block", {"height": 1, "width": 2}),
    ],
)
def test_nan_is_pruned_last_and_infinity_before_it(method, parameters, dtype):
    weights = ROWS.to(dtype)
    if method in ("l1_unstructured", "lamp"):
        weights = weights[:, :1].contiguous()
    gone: list[int] = []
    for amount in range(1, 5):
        [decision] = decide(method, target(weights), amount=amount, **parameters)
        rows = marked(decision, weights).reshape(weights.shape)[:, 0]
        [new] = set(rows.nonzero()[0].tolist()) - set(gone)
        gone.append(new)
    assert gone == [1, 3, 2, 0]


def test_identity_prunes_nothing():
    [decision] = decide("identity", target(torch.zeros(3)))
    assert decision.pruned == 0
    assert decision.predicate is None


def test_scope_row_treats_a_vector_as_one_row():
    weights = noise(10)
    [decision] = decide("l1_unstructured", target(weights), scope="row", amount=4)
    assert pruned(decision, weights).sum() == 4


def test_max_sparsity_limits_a_global_structured_step():
    small, large = noise(8, 3) / 100, noise(8, 3, seed=1)
    decisions = decide(
        "ln_structured",
        target(small, "small"),
        target(large, "large"),
        scope="global",
        amount=0.5,
        max_sparsity=0.75,
    )
    assert [decision.pruned for decision in decisions] == [6 * 3, 2 * 3]
    assert "limited to 75 %" in decisions[0].note


NAME = "layer.weight"
REFUSALS = [
    ("l1_unstructured", (7,), {"amount": 8}, "layer.weight: .*8 units: only 7 remain"),
    ("l1_unstructured", (1,), {"amount": 8}, "layer.weight: .*8 units: only 1 remains"),
    ("l1_unstructured", (5,), {"amount": 6, "scope": "global"}, "All targets.*6.*5"),
    ("l1_unstructured", (3, 4), {"amount": 5, "scope": "row"}, "row of layer.weight.*5.*4"),
    ("lamp", (5,), {"amount": 6}, "All targets.*6.*5"),
    ("erk", (5,), {"amount": 6}, "All targets.*6.*5"),
    ("ln_structured", (), {}, r"shape \[\].*two dimensions"),
    ("ln_structured", (4,), {}, r"shape \[4\].*two dimensions"),
    ("ln_structured", (4, 3), {"amount": 5}, "channels along dimension 0.*5.*4"),
    ("ln_structured", (4, 3), {"dim": 2}, "2 dimensions; dim 2 does not exist. Use -2 to 1"),
    ("ln_structured", (4, 3), {"dim": -3}, "dim -3 does not exist"),
    ("ln_structured", (4, 3), {"n": math.nan, "scope": "global"}, "layer.weight: n=nan"),
    ("ln_structured", (3, 4, 2, 2), {"n": "nuc"}, "4 dimensions; n='nuc' needs 3"),
    ("ln_structured", (3, 4, 4), {"n": "nuc", "scope": "global"}, "scope local"),
    ("channels", (), {"channels": [0]}, "Leave it out"),
    ("channels", (4, 3), {"channels": [1, 4]}, "has 4 channels.*channel 4.*0 to 3"),
    ("channels", (4, 3), {"channels": [3], "dim": 1}, "has 3 channels.*channel 3.*0 to 2"),
    ("channels", (4, 3), {"channels": [0], "dim": 2}, "dim 2 .*-2 to 1"),
    ("n_m", (), {}, "Leave it out"),
    ("n_m", (8,), {}, "dim 1 .*-1 to 0"),
    ("n_m", (4, 6), {}, "6 elements.*groups of 4.*keep"),
    ("n_m", (6, 4), {"dim": 0, "flatten": False}, "6 elements.*groups of 4.*keep"),
    ("block", (), {}, r"shape \[\].*two dimensions"),
    ("block", (8,), {}, r"shape \[8\].*two dimensions"),
    ("block", (6, 8), {}, "is 6 x 8.*4 x 4.*keep"),
    ("block", (8, 2, 3), {}, "is 8 x 6.*4 x 4.*keep"),
    ("block", (8, 8), {"amount": 5}, "blocks of 4 x 4.*5.*4 remain"),
    ("block", (8, 8), {"n": math.nan, "scope": "global"}, "layer.weight: n=nan"),
    ("block", (3, 3), {"amount": 1, "tail": "keep"}, "0 remain"),
    ("threshold", (1,), {"value": 1, "relative_to": "std"}, "layer.weight.*absolute"),
    ("custom_from_mask", (2,), {"mask": "masks"}, "masks: the mask of layer.weight"),
]
refusals = pytest.mark.parametrize(("method", "shape", "parameters", "says"), REFUSALS)


def refusal(method, shape, parameters):
    given = target(torch.ones(shape), NAME, masks=torch.full(shape, 0.5))
    with pytest.raises(RecipeError) as caught:
        decide(method, given, **parameters)
    return caught


@refusals
def test_the_message_names_the_target_and_the_reason(method, shape, parameters, says):
    refusal(method, shape, parameters).match(says)


@pytest.mark.parametrize("values", [[1.0, math.nan], [1e200, -1e200]])
def test_nan_and_huge_weights_have_no_standard_deviation(values):
    given = target(torch.tensor(values, dtype=torch.float64), NAME)
    with pytest.raises(RecipeError, match=r"layer\.weight.*absolute"):
        decide("threshold", given, value=1, relative_to="std")
