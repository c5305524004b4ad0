"""Amounts of single targets: the same masks as a step per target, and shares taken from a step."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch.nn.utils import prune as torch_prune

from prune_gui.checkpoint import TensorInfo, open_checkpoint
from prune_gui.errors import RecipeError
from prune_gui.pruning.methods import METHODS
from prune_gui.recipe import Recipe, Resolution, Step, resolve
from prune_gui.recipe.amounts import (
    amount_for_share,
    amounts_by_target,
    parse_amounts,
    remaining_before,
    with_amount,
    with_own_amount,
    with_shares_of,
)
from prune_gui.recipe.patterns import exact_pattern

SHAPES = {"a.conv": (8, 4, 2, 2), "a.fc": (8, 24), "b.fc": (4, 12), "b.head": (12, 4)}
EARLIER = {"method": "random_unstructured", "targets": ["a.*"], "amount": 0.4, "seed": 3}
METHOD_FIELDS = [
    {"method": "l1_unstructured"},
    {"method": "l1_unstructured", "scope": "row", "score": "ria"},
    {"method": "random_unstructured", "seed": 7},
    {"method": "balanced", "over": "local"},
    {"method": "balanced", "over": "row"},
    {"method": "ln_structured", "n": 1, "dim": 1},
    {"method": "random_structured", "seed": 7},
    {"method": "block", "height": 2, "width": 2},
]
shares = st.floats(0, 1)
counts = st.integers(0, 2)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    generator = torch.Generator().manual_seed(0)
    tensors = {  # few distinct values, so that many are equal
        name: torch.randint(-6, 7, shape, generator=generator) / 4 for name, shape in SHAPES.items()
    }
    path = tmp_path_factory.mktemp("amounts") / "model.safetensors"
    save_file(tensors, path)
    with open_checkpoint(path) as opened:
        yield opened


def same(one: Resolution, other: Resolution) -> bool:
    masks = (one.mask(name).equal(other.mask(name)) for name in one.counts)
    return one.counts == other.counts and all(masks)


@pytest.mark.parametrize("fields", METHOD_FIELDS, ids=lambda one: "-".join(map(str, one.values())))
@settings(max_examples=8)  # for each of eight methods
@given(
    own=st.dictionaries(st.sampled_from(list(SHAPES)), shares | counts, min_size=1),
    amount=shares,
    amount_of=st.sampled_from(["remaining", "total", "reach"]),
    max_sparsity=st.sampled_from([1.0, 0.6]),
)
def test_a_step_prunes_what_a_step_for_each_target_would(
    checkpoint, fields, own, amount, amount_of, max_sparsity
):
    fields = {**fields, "amount_of": amount_of, "max_sparsity": max_sparsity}
    alone = [{**fields, "targets": [name], "amount": own.get(name, amount)} for name in SHAPES]
    together = {**fields, "targets": ["*"], "amount": amount, "amounts": own}
    try:
        wanted = resolve(Recipe(steps=[EARLIER, *alone]), checkpoint)
    except RecipeError:
        with pytest.raises(RecipeError):
            resolve(Recipe(steps=[EARLIER, together]), checkpoint)
        return
    found = resolve(Recipe(steps=[EARLIER, together]), checkpoint)
    assert same(found, wanted)
    limits = {name: note for one in wanted.outcomes[1:] for name, note in one.limits.items()}
    assert found.outcomes[1].limits == limits


@settings(max_examples=15)
@given(amounts=st.fixed_dictionaries(dict.fromkeys(SHAPES, shares | counts)))
def test_the_number_pruned_of_each_target_is_that_of_torch(checkpoint, amounts):
    step = {"method": "l1_unstructured", "targets": ["*"], "amount": 0.5, "amounts": amounts}
    resolution = resolve(Recipe(steps=[step]), checkpoint)
    for name, amount in amounts.items():
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(checkpoint.read(name).clone())
        torch_prune.l1_unstructured(module, "weight", amount)
        pruned = ~resolution.mask(name)
        assert pruned.sum() == (module.weight_mask == 0).sum()
        weights = module.weight_orig.abs()
        assert weights[pruned].sum() == weights[module.weight_mask == 0].sum()


def outcome_of(checkpoint, amounts, **fields):
    step = {"method": "l1_unstructured", "targets": ["*"], "amount": 0.5, "amounts": amounts}
    return resolve(Recipe(steps=[{**step, **fields}]), checkpoint).outcomes[0]


def test_the_last_pattern_that_matches_counts(checkpoint):
    amounts = {"*": 1, "a.*": 2, "*fc": 3, "!b.*": 4, "dims>2": 5}
    pruned = {"a.conv": 5, "a.fc": 4, "b.fc": 3, "b.head": 1}
    assert outcome_of(checkpoint, amounts).pruned == pruned
    backwards = dict(reversed(amounts.items()))
    assert set(outcome_of(checkpoint, backwards).pruned.values()) == {1}


def test_a_pattern_that_matches_no_target_is_a_remark(checkpoint):
    outcome = outcome_of(checkpoint, {"a.fc": 3, "nothing": 4}, targets=["b.*"])
    remark = "its amount is unused: it matches no target"
    assert outcome.notes == {"a.fc": remark, "nothing": remark}
    assert outcome.pruned == {"b.fc": 24, "b.head": 24}
    assert outcome.amounts == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scope": "global"}, "step 1: amounts cannot be combined with scope: global.* to local"),
        ({"method": "balanced"}, "step 1: amounts cannot be combined with over: lamp"),
        ({"method": "lamp"}, "step 1, amounts: unknown field"),
        ({"amounts": {"a": 1.5}}, "step 1, amounts, a: a share must lie between"),
        ({"amounts": {"a": -1}}, "step 1, amounts, a: a number of units cannot be negative"),
        ({"amounts": {"size>x": 1}}, "step 1: amounts: size>x is not a condition"),
        ({"amounts": {}}, "step 1, amounts: at least 1 item is expected"),
        ({"amounts": [["a"]]}, r"step 1, amounts: entries such as encoder.\*: 0.5"),
    ],
)
def test_amounts_that_cannot_be_used_are_refused(fields, message):
    step = {"method": "l1_unstructured", "targets": ["*"], "amounts": {"a": 0.5}, **fields}
    with pytest.raises(RecipeError, match=message):
        Recipe.validated({"steps": [step]}, "r.yaml", None)


@settings(max_examples=20)
@given(st.dictionaries(st.text(min_size=1, max_size=9).map(exact_pattern), shares | counts))
def test_a_recipe_file_keeps_the_patterns_in_their_order(amounts):
    method = METHODS["l1_unstructured"](amounts=amounts or None)
    recipe = Recipe(steps=[Step(method=method, targets=("*",))])
    again = Recipe.from_yaml(recipe.to_yaml())
    assert again == recipe
    assert list(again.steps[0].method.amounts or ()) == list(amounts)
    assert ("amounts" in recipe.to_yaml()) == bool(amounts)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, unique=True), st.data())
def test_an_amount_set_for_a_target_is_its_own_until_it_is_removed(names, data):
    infos = [TensorInfo(name, (2,), "float32") for name in names]
    before = data.draw(st.dictionaries(st.sampled_from(["*", "a*", "?"]), shares))
    name = data.draw(st.sampled_from(names))
    after = with_own_amount(before, name, 7)
    was, _ = amounts_by_target(before, infos, {}, dict)
    found, _ = amounts_by_target(after, infos, {}, dict)
    assert found == was | {name: 7}
    assert (with_own_amount(after, name, None) or {}) == before


@settings(max_examples=25)
@given(
    share=st.floats(-0.5, 1.5),
    amount_of=st.sampled_from(["remaining", "total", "reach"]),
    own=st.none() | counts,
)
def test_the_amount_for_a_share_of_a_target_prunes_that_share(checkpoint, share, amount_of, own):
    step = {"method": "l1_unstructured", "targets": ["*"], "amount_of": amount_of, "amount": 0.5}
    step |= {"amounts": {"a.fc": own}} if own is not None else {}
    later = {"method": "l1_unstructured", "targets": ["*"], "amount": 0.1}
    shown = resolve(Recipe(steps=[EARLIER, step, later]), checkpoint)
    amount = amount_for_share(shown, 2, "a.fc", share)
    changed = Recipe(steps=[EARLIER, {**step, "amounts": {"a.fc": amount}}])
    total = 192
    wanted = min(max(0, round(share * total)), total - round(0.4 * total))
    pruned = resolve(changed, checkpoint).outcomes[1].pruned["a.fc"]
    assert abs(pruned - wanted) <= 1  # amounts are in tenths of a percent


STEPS_WITH_SHARES = [
    {"method": "l1_unstructured", "scope": "global"},
    {"method": "lamp", "score": "balanced"},
    {"method": "balanced"},
    {"method": "erk"},
    {"method": "ln_structured", "scope": "global"},
]


@pytest.mark.parametrize("fields", STEPS_WITH_SHARES, ids=lambda one: one["method"])
@pytest.mark.parametrize("targets", [["*"], ["a.*"]])
def test_shares_taken_from_a_step_prune_as_many_of_every_target(checkpoint, fields, targets):
    step = {**fields, "targets": targets, "amount": 0.37, "amount_of": "reach"}
    later = {"method": "l1_unstructured", "targets": ["*"], "amount": 0.1}
    shown = resolve(Recipe(steps=[EARLIER, step, later]), checkpoint)
    taken = with_shares_of(shown, 2, METHODS["random_unstructured"]())
    again = Recipe.from_yaml(Recipe(steps=[EARLIER, taken]).to_yaml())
    assert resolve(again, checkpoint).outcomes[1].pruned == shown.outcomes[1].pruned
    before = resolve(Recipe(steps=[EARLIER]), checkpoint)
    for name, (pruned, total) in before.counts.items():
        assert remaining_before(shown, 2, name) == total - pruned


def test_the_shares_of_a_global_step_give_its_masks(checkpoint):
    step = {"method": "balanced", "over": "global", "targets": ["*"], "amount": 0.4}
    shown = resolve(Recipe(steps=[step]), checkpoint)
    taken = with_shares_of(shown, 1, METHODS["balanced"](max_sparsity=0.1))
    assert same(resolve(Recipe(steps=[taken]), checkpoint), shown)


def test_the_shares_of_a_coupled_step_are_those_of_all_members(bert):
    step = {"method": "coupled", "targets": ["*"], "space": "ffn", "amount": 0.3}
    shown = resolve(Recipe(steps=[step]), bert)
    taken = with_shares_of(shown, 1, METHODS["l1_unstructured"](scope="global"))
    assert resolve(Recipe(steps=[taken]), bert).counts == shown.counts


@given(st.integers(0, 2**40), st.data())
def test_a_share_of_any_count_is_exact_and_short(remaining, data):
    count = data.draw(st.integers(0, remaining))
    outcome = SimpleNamespace(pruned={"w": count})
    info = TensorInfo("w", (2, 2), "float32")
    shown = SimpleNamespace(
        recipe=Recipe(steps=[Step(method=METHODS["lamp"](), targets=("*",))]),
        outcomes=[outcome],
        counts={"w": (count, remaining)},
        checkpoint=SimpleNamespace(tensors={"w": info}),
    )
    taken = with_shares_of(shown, 1, METHODS["l1_unstructured"]())
    [share] = taken.method.amounts.values()
    assert 0 <= share <= 1
    assert round(share * remaining) == count
    assert len(repr(share)) <= 2 + max(3, len(str(remaining)) + 1) or "e" in repr(share)


def test_amounts_may_be_a_list_of_pairs():
    fields = {"method": "l1_unstructured", "targets": ["*"], "amounts": [["a.*", 0.3], ["b", 2]]}
    [step] = Recipe.model_validate({"steps": [fields]}).steps
    assert step.method.amounts == {"a.*": 0.3, "b": 2}


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("10%, 20 %,30%", (0.1, 0.2, 0.3)),
        ("0.5; .25, 1., 1", (0.5, 0.25, 1.0, 1)),
        ("10% to 50% by 20%", (0.1, 0.3, 0.5)),
        ("10-30% by 10", (0.1, 0.2, 0.3)),
        ("0.1 to 0.3 by 0.1", (0.1, 0.2, 0.3)),
        ("8 To 24 by 8, 24, 100", (8, 16, 24, 100)),
        ("99%, 99.5% – 100% by 0.25%", (0.99, 0.995, 0.9975, 1.0)),  # noqa: RUF001
    ],
)
def test_amounts_are_read_as_a_person_writes_them(text, amounts):
    found = parse_amounts(text)
    assert found == amounts
    assert [type(one) for one in found] == [type(one) for one in amounts]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Write amounts such as"),
        ("10%, much", "'much' is not an amount"),
        ("-5", "'-5' is not an amount"),
        ("101%", "more than 100%"),
        ("1.5", "more than 100%"),
        ("10% to 20%", "is not an amount"),
        ("1 to 5 by 0", "is invalid: the increment"),
        ("50% to 10% by 10%", "Write amounts such as"),
        ("0 to 1e9 by 1", "is not an amount"),
        ("0 to 1000000000 by 1", "more than 1,000 amounts"),
        ("0.1 to 0.2 by 0.000000000000000000000001", "more than 1,000 amounts"),
        ("9" * 5000, "is not an amount"),
        ("1," * 5001, "more than 1,000 amounts"),
    ],
)
def test_an_invalid_amount_gives_a_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_amounts(text)


@given(first=st.integers(0, 1000), steps=st.integers(0, 40), by=st.integers(1, 50))
def test_a_range_of_shares_has_no_rounding_errors(first, steps, by):
    last = first + steps * by
    scale = max(last, 1)
    text = f"{first / 10}% to {last / 10}% by {by / 10}%"
    if scale > 1000:
        with pytest.raises(ValueError, match="more than 100%"):
            parse_amounts(text)
    else:
        wanted = tuple((first + i * by) / 1000 for i in range(steps + 1))
        assert parse_amounts(text) == wanted


def test_a_step_with_another_amount_differs_in_nothing_else():
    method = METHODS["l1_unstructured"](amount=0.5, scope="global")
    step = Step(method=method, targets=("a", "b"), enabled=False)
    other = with_amount(step, 8)
    assert other.method.amount == 8
    assert with_amount(other, 0.5) == step


def test_a_method_that_rejects_an_amount_gives_an_error():
    step = Step(method=METHODS["threshold"](value=0.5), targets=("a",))
    with pytest.raises(RecipeError, match="Threshold has no amount"):
        with_amount(step, 0.5)
    step = Step(method=METHODS["l1_unstructured"](amount=0.5), targets=("a",))
    with pytest.raises(
        RecipeError, match=r"does not accept the amount 1\.5: a share must lie between"
    ):
        with_amount(step, 1.5)
