"""Steps of coupled methods: their tables, what they target and read, and files of scores."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import prune_gui
from safetensors.torch import load_file, save_file
from small_bert import FFN, HEADS, HIDDEN, LAYER, LAYERS, bert_tensors, write_bert

from prune_gui import Recipe, open_checkpoint, resolve
from prune_gui.architecture.groups import check_table, coupled_groups
from prune_gui.errors import RecipeError, StepError
from prune_gui.monitor import Monitor
from prune_gui.pruning.decisions import coupled_units
from prune_gui.pruning.selection.scores import StoredTensor
from prune_gui.recipe import Step
from prune_gui.recipe.resolution import initial_resolution
from prune_gui.recipe.resolver import Resolver
from prune_gui.resources import resource

UP = "encoder.layer.{}.intermediate.dense.weight"
FFN_KEYS = ["encoder.layer.0.ffn", "encoder.layer.1.ffn"]
generator = torch.Generator().manual_seed(3)
ASCENDING = torch.arange(1.0, FFN + 1).repeat_interleave(HIDDEN).reshape(FFN, HIDDEN)
VECTORS = {key: torch.rand(FFN, generator=generator) for key in FFN_KEYS}


@pytest.fixture
def scores(tmp_path):
    """Return a function that writes tensors to the file of scores, and returns its path."""

    def write(tensors, name="scores.safetensors"):
        save_file(tensors, tmp_path / name)
        return str(tmp_path / name)

    return write


def step(path, method="coupled", **fields):
    fields = {"targets": ["*"], "amount": 5} | fields
    return {"method": method, "importance": path, **fields}


def pruned_rows(resolution, layer):
    mask = resolution.mask(UP.format(layer))
    return (~mask).all(1).nonzero().ravel().tolist()


def test_a_vector_per_group_ranks_its_units_like_a_list_made_by_hand(bert, scores):
    resolution = resolve(Recipe(steps=[step(scores(VECTORS))]), bert)
    for layer, key in enumerate(FFN_KEYS):
        order = sorted(range(FFN), key=lambda unit: (float(VECTORS[key][unit]), unit))
        assert pruned_rows(resolution, layer) == sorted(order[:5])
        listed = {"method": "listed_units", "units": order[:5], "targets": [UP.format(layer)]}
        by_hand = resolve(Recipe(steps=[listed]), bert)
        for name in (UP.format(layer), f"encoder.layer.{layer}.output.dense.weight"):
            assert torch.equal(resolution.mask(name), by_hand.mask(name))


def test_other_formats_and_types_of_numbers_rank_the_same(bert, scores, tmp_path):
    expected = resolve(Recipe(steps=[step(scores(VECTORS))]), bert)
    np.savez(tmp_path / "s.npz", **{key: one.double().numpy() for key, one in VECTORS.items()})
    torch.save(VECTORS, tmp_path / "s.pt")
    for name in ("s.npz", "s.pt"):
        resolution = resolve(Recipe(steps=[step(str(tmp_path / name))]), bert)
        assert pruned_rows(resolution, 0) == pruned_rows(expected, 0)


def test_one_file_may_have_scores_for_several_steps(bert, scores):
    heads = {f"encoder.layer.{i}.attention.heads": torch.rand(HEADS) for i in range(LAYERS)}
    path = scores(VECTORS | heads | {"encoder.layer": torch.rand(LAYERS)})
    steps = [step(path), step(path, space="heads", amount=1), step(path, "layers", amount=1)]
    assert all(outcome.total[0] for outcome in resolve(Recipe(steps=steps), bert).outcomes)


def test_only_the_groups_that_the_step_targets_need_scores(bert, scores):
    path = scores({FFN_KEYS[1]: VECTORS[FFN_KEYS[1]]})
    resolution = resolve(Recipe(steps=[step(path, targets=[UP.format(1)])]), bert)
    assert (len(pruned_rows(resolution, 0)), len(pruned_rows(resolution, 1))) == (0, 5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "max"])
def test_scores_of_weights_rank_like_their_vectors(bert, scores, reduction):
    importances = {
        name: torch.rand(tensor.shape, generator=generator)
        for name, tensor in bert_tensors().items()
        if "bias" not in name
    }
    vectors = {}
    for layer, key in enumerate(FFN_KEYS):
        ups = importances[UP.format(layer)].double()
        downs = importances[f"encoder.layer.{layer}.output.dense.weight"].double().T
        both = torch.stack([ups.mean(1), downs.mean(1)])
        vectors[key] = {
            "mean": both.mean(0),
            "sum": ups.sum(1) + downs.sum(1),
            "max": both.max(0).values,
        }[reduction]
    by_unit = resolve(Recipe(steps=[step(scores(vectors))]), bert)
    path = scores(importances, "weights.safetensors")
    by_weight = resolve(Recipe(steps=[step(path, reduction=reduction)]), bert)
    assert all(pruned_rows(by_unit, i) == pruned_rows(by_weight, i) != [] for i in range(LAYERS))


def test_the_layer_of_the_lowest_score_goes(bert, scores):
    path = scores({"encoder.layer": torch.tensor([0.75, 0.5])})
    resolution = resolve(Recipe(steps=[step(path, "layers", amount=1)]), bert)
    for name, (pruned, total) in resolution.counts.items():
        assert pruned == (total if name.startswith(LAYER.format(1)) else 0)
    explanation = resolution.explain(LAYER.format(1) + "output.dense.weight", (0, 0))
    rank = explanation.element_ranks[1]
    assert (rank.score, rank.rank, rank.ranked) == (0.5, 0, 2)
    assert rank.unit == "unit 1 of encoder.layer, score from scores.safetensors"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, r"neither a vector encoder.layer.0.ffn with one score for each of its 12 units, nor"),
        ({FFN_KEYS[0]: torch.rand(FFN)}, r"has no vector named encoder.layer.1.ffn\. Add it"),
        (
            VECTORS | {FFN_KEYS[1]: torch.rand(FFN + 1)},
            r"encoder.layer.1.ffn has shape \[13\], but the group has 12 units",
        ),
        (
            VECTORS | {FFN_KEYS[1]: torch.rand(FFN, 1)},
            r"encoder.layer.1.ffn has shape \[12, 1\], but the group has 12 units",
        ),
        (
            VECTORS | {FFN_KEYS[0]: torch.arange(FFN)},
            r"encoder.layer.0.ffn cannot be used as scores: .*floating point",
        ),
        (
            VECTORS | {"encoder.layer.2.ffn": torch.rand(FFN)},
            r"encoder.layer.2.ffn is the name of no group of units in model.safetensors; they are",
        ),
        (
            {UP.format(i): torch.rand(FFN, HIDDEN + 1) for i in range(LAYERS)},
            r"intermediate.dense.weight has shape \[12, 9\], but the parameter has \[12, 8\]",
        ),
        ({UP.format(0): torch.rand(FFN, HIDDEN)}, r"has no scores of encoder.layer.1: neither"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_line(bert, scores, tensors, message):
    path = scores(tensors)
    with pytest.raises(StepError, match=message) as caught:
        resolve(Recipe(steps=[step(path)]), bert)
    assert str(caught.value).count("\n") == 0
    assert path in str(caught.value)


def test_a_layer_without_any_scored_tensor_is_refused(bert, scores):
    name = LAYER.format(0) + "output.dense.weight"
    path = scores({name: torch.rand(HIDDEN, FFN)})
    with pytest.raises(StepError, match=r"no scores of unit 1 of encoder.layer\. Add a tensor"):
        resolve(Recipe(steps=[step(path, "layers", amount=1)]), bert)


def test_layers_may_have_tensors_without_dimensions(tmp_path, scores):
    scales = {LAYER.format(i) + "scale": torch.tensor(2.0 - i) for i in range(LAYERS)}
    with open_checkpoint(write_bert(tmp_path, **scales)) as checkpoint:
        recipe = Recipe(steps=[step(scores(scales), "layers", amount=1)])
        resolution = resolve(recipe, checkpoint)
        assert [bool(resolution.mask(name)) for name in scales] == [True, False]
        listed = Recipe(steps=[{"method": "layers", "targets": ["*"], "layers": [1]}])
        assert resolve(listed, checkpoint).total == resolution.total


@pytest.mark.parametrize(
    "tensors",
    [
        VECTORS,
        {
            UP.format(i): torch.arange(1.0, FFN + 1).repeat_interleave(HIDDEN).reshape(FFN, HIDDEN)
            for i in (0, 1)
        },
    ],
)
def test_another_amount_reads_no_file_again_but_a_changed_file_is_read(
    bert, scores, tensors, calls_of
):
    path = scores(tensors)
    start = initial_resolution(Recipe(), bert, Monitor())
    reads = calls_of(StoredTensor, "__call__")
    first = start.with_step(Step.model_validate(step(path, amount=3)), Monitor())
    assert {tensor.key for (tensor,) in reads} == set(tensors)
    reads.clear()
    second = start.with_step(Step.model_validate(step(path, amount=6)), Monitor())
    assert reads == []
    assert second.total[0] == 2 * first.total[0]
    assert second.is_current

    scores({name: tensor.flip(0) for name, tensor in tensors.items()}, "new.safetensors")
    Path(path).with_name("new.safetensors").replace(path)
    assert not second.is_current
    third = start.with_step(Step.model_validate(step(path, amount=6)), Monitor())
    assert pruned_rows(third, 0) != pruned_rows(second, 0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "name either layers, or importance and amount"),
        ({"amount": 1}, "name either layers, or importance and amount"),
        ({"importance": "x", "layers": [1]}, "name either layers, or importance and amount"),
        ({"importance": "x"}, "importance needs amount"),
        ({"layers": [1], "amount": 1}, "amount has no effect on listed units"),
    ],
)
def test_layers_are_either_listed_or_ranked(fields, message):
    steps = [{"method": "layers", "targets": ["*"], **fields}]
    with pytest.raises(RecipeError, match=message):
        Recipe.from_yaml(f"version: 1\nsteps: {steps}")


def test_recipes_keep_listed_and_ranked_layers():
    steps = [
        {"method": "layers", "targets": ["*"], "layers": [1, 3]},
        {"method": "layers", "targets": ["*"], "amount": 2, "importance": "/s.npz"},
        {
            "method": "experts",
            "targets": ["*"],
            "amount": 0.5,
            "importance": "/s.npz",
            "reduction": "sum",
        },
    ]
    recipe = Recipe(steps=steps)
    assert Recipe.from_yaml(recipe.to_yaml()) == recipe
    listed = recipe.steps[0].model_dump()
    assert listed.keys() == {"method", "targets", "layers", "stack"}


def test_the_example_of_the_guide_writes_such_a_file(bert, tmp_path, monkeypatch):
    text = resource("guide", "guide.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [code] = [block for block in blocks if "save_file(scores" in block]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    resolution = resolve(Recipe(steps=[step("scores.safetensors")]), bert)
    sums = bert_tensors()[UP.format(0)].abs().sum(1)
    assert sorted(pruned_rows(resolution, 0)) == sorted(sums.argsort()[:5].tolist())


FIRST_UP = "encoder.layer.0.intermediate.dense.weight"
STEP = {"method": "listed_units", "space": "ffn", "units": [0], "targets": [FIRST_UP]}


@pytest.fixture
def table(tmp_path):
    """A table whose FFN neurons do not include the bias."""
    text = (resource("architectures") / "bert.yaml").read_text()
    lines = [line for line in text.splitlines() if "intermediate.dense.bias" not in line]
    assert len(lines) < len(text.splitlines())
    path = tmp_path / "tables" / "own.yaml"
    path.parent.mkdir()
    path.write_text("\n".join(lines))
    return path


def pruned(resolution):
    return {name for name, (number, _) in resolution.counts.items() if number}


def test_steps_prune_the_units_of_the_table(bert, table):
    recipe = Recipe(steps=[Step.model_validate(STEP)])
    members = {FIRST_UP, FIRST_UP.replace("weight", "bias"), "encoder.layer.0.output.dense.weight"}
    assert pruned(resolve(recipe, bert)) == members
    own = resolve(recipe.with_table(table), bert)
    assert pruned(own) == members - {FIRST_UP.replace("weight", "bias")}


def test_the_table_is_relative_to_the_recipe_and_survives_its_file(table, tmp_path):
    recipe = Recipe(steps=[Step.model_validate(STEP)]).with_table(table, tmp_path)
    text = recipe.lying_in(tmp_path).to_yaml()
    assert f"table: {Path('tables', 'own.yaml')}" in text
    assert Recipe.from_yaml(text, folder=tmp_path) == recipe
    assert str(table) in recipe.lying_in(tmp_path / "elsewhere").to_yaml()
    assert str(table) in recipe.anchored().to_yaml()
    assert recipe.renewed() == recipe
    assert "table" not in recipe.with_table(None).to_yaml()
    assert Recipe.from_yaml("table: own.yaml").table_path == Path.cwd() / "own.yaml"


def test_the_command_line_prunes_what_the_recipe_or_its_option_says(bert, table, tmp_path):
    recipe = Recipe(steps=[Step.model_validate(STEP)])
    plain, own = tmp_path / "plain.yaml", tmp_path / "own_recipe.yaml"
    plain.write_text(recipe.to_yaml())
    own.write_text(recipe.with_table(table, tmp_path).lying_in(tmp_path).to_yaml())
    masks = []
    for arguments in ([own], [plain, "--table", table], [plain]):
        out = tmp_path / "masks.safetensors"
        words = [*arguments, bert.path, "-o", out, "--form", "masks", "--overwrite"]
        result = prune_gui("apply", *words)
        assert result.returncode == 0, result.stderr
        masks.append(sorted(load_file(out)))
    assert masks[0] == masks[1]
    assert len(masks[2]) == len(masks[0]) + 1


def test_the_compact_form_removes_the_units_of_the_table_of_the_recipe(bert, table, tmp_path):
    whole = (resource("architectures") / "bert.yaml").read_text()
    table.write_text(whole.replace("title: FFN neurons", "title: cells"))
    recipe = Recipe(steps=[Step.model_validate(STEP)]).with_table(table, tmp_path)
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe.lying_in(tmp_path).to_yaml())
    result = prune_gui("compact", bert.path, "--recipe", file, "--dry-run", "--json")
    assert result.returncode == 0, result.stderr
    [units] = json.loads(result.stdout)["units"]
    assert (units["title"], units["before"], units["after"]) == ("cells", 24, 23)


def test_a_changed_table_is_used_when_the_recipe_is_resolved_again(bert, table):
    recipe = Recipe(steps=[Step.model_validate(STEP)]).with_table(table)
    resolver = Resolver(bert)
    before = resolver.resolve(recipe, Monitor())
    assert resolver.resolve(recipe, Monitor()) is before
    table.write_text((resource("architectures") / "bert.yaml").read_text())
    after = resolver.resolve(recipe, Monitor())
    assert pruned(after) == pruned(before) | {FIRST_UP.replace("weight", "bias")}
    table.unlink()
    with pytest.raises(StepError, match=r"own.yaml: the table cannot be read"):
        resolver.resolve(recipe, Monitor())


def test_a_table_that_describes_nothing_of_the_file_is_refused(bert, table):
    check_table(bert, table)
    table.write_text(table.read_text().replace("stacks: [", "stacks: [no."))
    with pytest.raises(RecipeError, match=r"own.yaml: the table describes no units of model.saf"):
        check_table(bert, table)
    assert coupled_groups(bert, "ffn")


GROUP = (FIRST_UP, FIRST_UP.replace("weight", "bias"), "encoder.layer.0.output.dense.weight")


def coupled_step(target=FIRST_UP, **fields):
    return Step.model_validate({"method": "coupled", "targets": [target], **fields})


def test_another_amount_reads_no_weights_again(bert, monkeypatch):
    start = initial_resolution(Recipe(), bert, Monitor())
    first = start.with_step(coupled_step(amount=0.25), Monitor())
    monkeypatch.setattr(coupled_units, "score_norms", lambda *_, **__: pytest.fail("read again"))
    second = start.with_step(coupled_step(amount=0.75), Monitor())
    assert second.total[0] == 3 * first.total[0]


@pytest.mark.parametrize(
    ("target", "protect", "message"),
    [
        (GROUP[2], (), rf"no tensor that has units of this kind as outputs, such as {FIRST_UP}"),
        (FIRST_UP, (GROUP[2],), rf"{GROUP[2]} is protected, and units of encoder.layer.0 are"),
    ],
)
def test_a_step_without_a_whole_group_is_refused(bert, target, protect, message):
    with pytest.raises(StepError, match=message):
        resolve(Recipe(steps=[coupled_step(target)], protect=protect), bert)


def test_a_kind_of_units_that_the_network_lacks_is_refused_with_those_it_has(bert):
    says = r"no units of the kind 'experts'\. Choose one of: ffn, heads\.$"
    with pytest.raises(StepError, match=says):
        resolve(Recipe(steps=[coupled_step(space="experts")]), bert)


def test_a_table_without_units_that_a_step_can_name_is_told(on_disk, tmp_path):
    member = {"name": "a.weight", "dim": 0}
    groups = [{"label": "a", "size": 4, "members": [member]}]
    table = tmp_path / "table.yaml"
    spaces = {"odd": {"title": "x", "groups": groups}}
    table.write_text(json.dumps({"family": "own", "spaces": spaces}))
    checkpoint = on_disk({"a.weight": torch.ones(4, 2)})
    recipe = Recipe(steps=[coupled_step("a.weight", space="channels")], table=str(table))
    says = r"no units of the kind 'channels'\. Name the file of a table of them\.$"
    with pytest.raises(StepError, match=says):
        resolve(recipe, checkpoint)


def test_groups_that_are_a_guess_are_reported(on_disk):
    shapes = {"0.weight": (6, 4), "0.bias": (6,), "1.weight": (3, 6), "1.bias": (3,)}
    checkpoint = on_disk({name: torch.ones(shape) for name, shape in shapes.items()})
    recipe = Recipe(steps=[coupled_step("0.weight", space="channels")])
    [outcome] = resolve(recipe, checkpoint).outcomes
    assert "is a guess from the shapes" in outcome.remarks["0.weight"]
