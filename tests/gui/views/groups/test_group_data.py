"""The units of a coupled group, compared with the masks of its members."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from small_bert import EMBEDDINGS, FFN, HIDDEN, LAYER, bert_tensors, write_bert

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import RecipeError
from prune_gui.gui.views.bars.data import ScoreOf
from prune_gui.gui.views.groups.data import measure_group
from prune_gui.gui.views.groups.text import describe_unit, group_facts, group_table
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.recipe import Recipe, resolve
from prune_gui.session.space_outline import unit_name
from prune_gui.session.subjects import Subject

UP = "encoder.layer.0.intermediate.dense.weight"
QUERY = "encoder.layer.0.attention.self.query.weight"
CHANNELS = {"method": "channels"}
COUPLED = {"method": "coupled", "targets": ["*.intermediate.dense.weight"], "space": "ffn"}


@pytest.fixture
def subject_after(tmp_path):
    """Return a function of steps and the name of a parameter of a small BERT."""
    with open_checkpoint(write_bert(tmp_path)) as checkpoint:

        def subject(*steps, name=UP, draft=None):
            return Subject(
                resolve(Recipe(steps=steps), checkpoint), checkpoint.tensors[name], draft
            )

        yield subject


def measured(subject, wanted=None, before=None):
    return measure_group(subject, wanted, before, Monitor())


def pruned_units(subject, data):
    """Return which units are pruned in the masks of all members."""
    pruned = np.ones(data.group.size, bool)
    for member in data.group.members:
        mask = subject.resolution.mask(member.name).numpy()
        kept = mask.any(axis=tuple(dim for dim in range(mask.ndim) if dim != member.dim))
        stop = member.offset + data.group.size * member.width
        pruned &= ~kept[member.offset : stop].reshape(data.group.size, -1).any(1)
    return pruned


def test_units_have_the_joined_norm_of_their_weights_until_a_step_ranks_them(subject_after):
    data = measured(subject_after())
    tensors = bert_tensors()
    up, down = tensors[UP], tensors["encoder.layer.0.output.dense.weight"]
    expected = torch.sqrt(up.square().sum(1) + down.square().sum(0))
    assert data.units.norms == pytest.approx(expected.numpy(), rel=1e-6)
    assert (data.units.by, data.units.cut) == (2.0, None)
    assert data.counts() == {0: FFN}
    assert data.chosen.group.label == "encoder.layer.0"


@pytest.mark.parametrize(
    "steps",
    [
        [COUPLED],
        [COUPLED | {"amount": 0.3}, COUPLED | {"amount": 2}],
        [COUPLED | {"scope": "global"}],
        [{"method": "l1_unstructured", "targets": ["*0*dense.weight"], "amount": 0.9}],
        [
            CHANNELS | {"targets": [UP], "channels": [1, 4], "dim": 0},
            CHANNELS | {"targets": ["*.0.intermediate*bias"], "channels": [4], "dim": 0},
            CHANNELS | {"targets": ["*.0.output.dense.weight"], "channels": [1, 4], "dim": 1},
        ],
        [
            {"method": "channels", "targets": ["*.0.output.dense*"], "channels": "0-7", "dim": 0},
            {"method": "channels", "targets": ["*.0.intermediate*"], "channels": [2], "dim": 0},
        ],
    ],
)
def test_a_unit_is_pruned_if_all_its_slices_are(subject_after, steps):
    subject = subject_after(*steps)
    data = measured(subject)
    expected = pruned_units(subject, data)
    assert np.array_equal(data.pruned_by > 0, expected)
    own = next(row for row in data.overview if row.group == data.group)
    assert own.kept == FFN - expected.sum()
    for row in data.members:
        assert (row.pruned, row.total) == subject.resolution.counts[row.member.name]


def test_a_unit_has_the_code_of_the_step_that_completed_it(subject_after):
    everywhere = {"method": "listed_units", "space": "ffn", "targets": [UP]}
    steps = [
        {"method": "channels", "targets": [UP], "channels": [3], "dim": 0},
        everywhere | {"units": [3, 5]},
        everywhere | {"units": [5, 7]},
    ]
    data = measured(subject_after(*steps, draft=3))
    assert data.pruned_by.tolist() == [0, 0, 0, 2, 0, 2, 0, 3, 0, 0, 0, 0]
    parts = data.units.parts
    rows = dict(zip(data.units.channels.codes, parts, strict=True))
    assert rows[0][[3, 5, 7]].tolist() == [0, 0, 0]
    assert rows[2][7] == 0 < rows[2][5]
    assert np.array_equal(parts[-1], data.units.norms)


def test_the_scores_are_those_of_the_draft_and_else_of_the_last_ranking_step(subject_after):
    steps = [COUPLED | {"amount": 3}, COUPLED | {"amount": 2, "n": 1}]
    for draft, step in ((None, 2), (1, 1)):
        data = measured(subject_after(*steps, draft=draft))
        assert data.units.by == ScoreOf(step)
        pruned = data.pruned_by == step
        assert data.units.cut == data.units.norms[pruned].max()


def test_the_scores_of_other_units_do_not_count(subject_after):
    data = measured(subject_after(COUPLED, name=QUERY))
    assert (data.units.by, data.group.space, data.group.size) == (2.0, "heads", 4)


def test_the_group_of_the_same_kind_stays_when_another_parameter_is_chosen(subject_after):
    layers = measured(subject_after()).choices[-1].group
    data = measured(subject_after(), layers)
    assert data.group.space == "layers"
    other = measured(subject_after(name=QUERY), layers)
    assert other.group == layers


def test_the_units_are_those_of_the_draft_until_another_group_is_wanted(subject_after):
    heads = {**COUPLED, "targets": ["*.query.weight"], "space": "heads"}
    before = measured(subject_after())
    assert before.group.space == "ffn"
    data = measured(subject_after(heads, draft=1), before.group, before)
    assert (data.group.space, data.group.label) == ("heads", "encoder.layer.0.attention")
    assert measured(subject_after(heads, draft=1), before.group, data).group == before.group


def test_whole_layers_are_units(subject_after):
    step = {"method": "layers", "layers": [1], "targets": ["encoder.layer.*"]}
    subject = subject_after(step)
    layers = measured(subject).choices[-1].group
    data = measured(subject, layers)
    assert data.pruned_by.tolist() == [0, 1]
    assert [row.kept for row in data.overview] == [1]
    squares = [
        sum(
            value.square().sum()
            for name, value in bert_tensors().items()
            if name.startswith(LAYER.format(layer)) and value.ndim > 1
        )
        for layer in range(2)
    ]
    assert data.units.norms == pytest.approx(np.sqrt(squares), rel=1e-6)


def test_infinite_and_huge_weights_have_norms(tmp_path):
    tensors = {name: value.double() for name, value in bert_tensors().items()}
    tensors[UP][:, 0] = torch.tensor(
        [float("inf"), float("nan"), 1e150, *[0.0] * 9], dtype=torch.float64
    )
    path = write_bert(tmp_path)
    save_file(tensors, path)
    with open_checkpoint(path) as checkpoint:
        data = measured(Subject(resolve(Recipe(), checkpoint), checkpoint.tensors[UP], None))
    norms = data.units.norms
    assert np.isinf(norms[0])
    assert np.isnan(norms[1])
    assert norms[2] == pytest.approx(1e150)
    assert np.isfinite(norms[3:]).all()


def test_an_unchanged_resolution_is_not_measured_again(subject_after):
    subject = subject_after(COUPLED)
    before = measured(subject)
    again = measured(Subject(subject.resolution, subject.info, None), None, before)
    assert again.units.norms is before.units.norms
    assert again.members is before.members


def test_the_norms_are_read_once_for_all_recipes(subject_after):
    before = measured(subject_after())
    step = {"method": "l1_unstructured", "targets": [UP], "amount": 0.5}
    after = measured(subject_after(step), None, before)
    assert after.units.norms is before.units.norms
    assert after.members[0].pruned == FFN * HIDDEN // 2


def test_a_parameter_without_units_is_refused_with_a_way_out(subject_after, tmp_path):
    with pytest.raises(RecipeError, match=r"belongs to no coupled units.*FFN neurons, attention"):
        measured(subject_after(name=EMBEDDINGS))
    save_file({"a": torch.ones(4, 4)}, tmp_path / "other.safetensors")
    with open_checkpoint(tmp_path / "other.safetensors") as checkpoint:
        subject = Subject(resolve(Recipe(), checkpoint), checkpoint.tensors["a"], None)
        with pytest.raises(RecipeError, match=r"other\.safetensors"):
            measured(subject)


def test_a_unit_is_described_with_what_pruned_it(subject_after):
    steps = [
        {"method": "listed_units", "space": "ffn", "units": [3], "targets": [UP]},
        {"method": "channels", "targets": [UP], "channels": [5], "dim": 0},
    ]
    data = measured(subject_after(*steps))
    texts = [describe_unit(data, unit) for unit in (2, 3, 5)]
    assert texts[0] == f"unit 2: norm {data.units.norms[2]:.4g}, kept"
    assert texts[1].endswith(", pruned by step 1: Listed units")
    assert texts[2].endswith(", kept, 8 of 17 elements pruned (47.1 %)")
    assert group_facts(data) == "12 units, 1 pruned"
    ranked = measured(subject_after(COUPLED))
    assert describe_unit(ranked, 0).startswith(f"unit 0: score {ranked.units.norms[0]:.5g}, ")


@pytest.mark.parametrize(
    ("space", "widths", "name"),
    [
        ("kv_groups", (8, 2, 2), "KV head 3 (query heads 12-15)"),
        ("kv_groups", (2, 2, 2), "head 3"),
        ("decoder_heads", (2,), "head 3"),
        ("experts", (1,), "expert 3"),
        ("encoder_layers", (1,), "layer 3"),
        ("expert_ffn", (1,), "unit 3"),
    ],
)
def test_units_are_named_by_their_kind(space, widths, name):
    members = tuple(Member(f"{width}", 0, width=width) for width in widths)
    assert unit_name(CoupledGroup(space, "layer", 8, members), 3) == name


def test_the_table_has_the_numbers_of_the_units(subject_after):
    step = {"method": "listed_units", "space": "ffn", "units": [3, 4], "targets": [UP]}
    data = measured(subject_after(step))
    order = np.argsort(-data.units.norms)
    table = group_table(data, order)
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows) == order.tolist()
    assert rows[3] == ("unit 3", data.units.norms[3], "step 1: Listed units", 17, 17)
    assert rows[0][2:] == ("", 0, 17)
