"""The overview is complete after some slices, and reuses what is still true."""

import pytest
import torch
from small_bert import write_bert

from prune_gui.checkpoint import open_checkpoint
from prune_gui.gui.views.overview import data as overview_data
from prune_gui.gui.views.overview.data import OverviewRequest, compute_overview
from prune_gui.gui.views.overview.text import MAX_LISTED
from prune_gui.gui.views.overview.thumbnail import Shading
from prune_gui.monitor import Monitor
from prune_gui.raster.colours import DARK, LIGHT
from prune_gui.recipe import Recipe, Step, resolve
from prune_gui.session.subjects import ModelSubject
from prune_gui.statistics.file_zeros import FileZeros, ZeroPatterns

STEP = {"method": "l1_unstructured", "amount": 0.5, "targets": ["layers.0.*"]}
WEIGHTS = {
    f"layers.{i}.fc{j}.weight": torch.randn(8, 8, generator=torch.Generator().manual_seed(i))
    for i in range(3)
    for j in (1, 2)
}


def request(shading=Shading.STEP, *, vectors=False, colours=LIGHT, visible=(), limit=1000):
    return OverviewRequest(shading, vectors, colours, visible, limit)


def complete(resolution, wanted, before=None):
    """Return the content after enough slices."""
    subject = ModelSubject(resolution, None, reference=resolution.checkpoint)
    found = compute_overview(subject, before, wanted, Monitor())
    while not found.is_complete:
        found = compute_overview(subject, found, wanted, Monitor())
    return found


@pytest.fixture
def no_time(monkeypatch):
    monkeypatch.setattr(overview_data, "SLICE_S", 0.0)


def test_a_slice_computes_at_least_one_thumbnail_and_visible_ones_come_first(resolved, no_time):
    names = ("layers.1.fc2.weight", "layers.2.fc1.weight")
    resolution = resolved(STEP, **WEIGHTS)
    subject = ModelSubject(resolution, None, reference=resolution.checkpoint)
    first = compute_overview(subject, None, request(visible=names), Monitor())
    assert list(first.pictures) == ["layers.1.fc2.weight"]
    assert not first.is_drawn
    second = compute_overview(subject, first, request(visible=names), Monitor())
    assert list(second.pictures)[1] == "layers.2.fc1.weight"


def test_an_edit_renews_only_the_thumbnails_that_it_concerns(resolved):
    before = complete(resolved(**WEIGHTS), request())
    resolution = before.subject.resolution
    after = complete(resolution.with_step(Step.model_validate(STEP), Monitor()), request(), before)
    renewed = {name for name in WEIGHTS if after.pictures[name] is not before.pictures[name]}
    assert renewed == {"layers.0.fc1.weight", "layers.0.fc2.weight"}
    assert after.arrangement is before.arrangement


def test_another_theme_draws_the_same_cells_in_other_colours(resolved):
    resolution = resolved(STEP, **WEIGHTS)
    light = complete(resolution, request())
    dark = complete(resolution, request(colours=DARK), light)
    for name in WEIGHTS:
        assert dark.pictures[name].thumbnail is light.pictures[name].thumbnail
        assert (dark.pictures[name].pixels != light.pictures[name].pixels).any()


def test_thumbnails_beyond_the_limit_are_not_kept(resolved):
    resolution = resolved(STEP, **WEIGHTS)
    top = ("layers.0.fc1.weight", "layers.0.fc1.weight")
    first = complete(resolution, request(visible=top, limit=2))
    assert list(first.pictures) == ["layers.0.fc1.weight", "layers.0.fc2.weight"]
    end = ("layers.2.fc2.weight", "layers.2.fc2.weight")
    moved = compute_overview(
        ModelSubject(resolution, None, reference=resolution.checkpoint),
        first,
        request(visible=end, limit=2),
        Monitor(),
    )
    assert set(moved.pictures) == {"layers.0.fc1.weight", "layers.2.fc2.weight"}


def test_vectors_are_shown_on_request_or_if_there_is_nothing_else(resolved):
    resolution = resolved(a=torch.ones(4, 4), b=torch.ones(4))
    assert list(complete(resolution, request()).pictures) == ["a"]
    assert set(complete(resolution, request(vectors=True)).pictures) == {"a", "b"}
    assert list(complete(resolved(b=torch.ones(4)), request()).pictures) == ["b"]


def test_the_card_counts_the_file_and_leads_to_the_sparsest_parameter(resolved):
    card = complete(resolved(STEP, **WEIGHTS), request()).card
    texts = {row.label: row.text for row in card.facts}
    assert texts["Parameters"] == "6"
    assert texts["Weights"] == "384"
    assert texts["Blocks"] == "3"
    assert texts["Pruned"] == "64 (16.7 %)"
    assert [row.parameters for row in card.facts if row.parameters] == [("layers.0.fc1.weight",)]
    assert card.warnings.total == 0


def test_the_card_lists_the_first_warnings_but_none_about_zeros_of_the_file(resolved):
    sizes = range(3, MAX_LISTED + 6)
    weights = {f"m{size}": torch.full((size, 1), torch.nan) for size in sizes}
    weights["zero"] = torch.zeros(4, 4)
    card = complete(resolved(**weights), request()).card
    names = [(name,) for name in list(weights)[:MAX_LISTED]]
    assert [row.parameters for row in card.warnings.rows] == names
    assert card.warnings.rows[0].text == "3 NaN"
    assert card.warnings.total == MAX_LISTED + 3


def test_the_facts_count_no_running_statistics(resolved):
    norm = {"n__weight": torch.ones(4), "n__running_var": torch.ones(4)}
    card = complete(resolved(**norm), request()).card
    facts = {row.label: row.text for row in card.facts}
    assert (facts["Parameters"], facts["Weights"], facts["Size"]) == ("1", "4", "16 bytes")


@pytest.mark.parametrize(
    ("weights", "energy"),
    [
        (torch.eye(4), "62.50 % of the reference"),
        (torch.eye(4)[:3], "50.00 % of the reference"),
        (torch.full((3, 4), 2.0), "\N{EN DASH}"),
    ],
)
def test_energy_is_relative_to_the_reference_unless_what_is_kept_cannot_be_found(
    resolved, in_memory, weights, energy
):
    resolution = resolved(w=weights, v=torch.diag(torch.tensor([1.0, 0, 0, 0])))
    reference = in_memory({"w": torch.eye(4), "v": torch.eye(4)})
    subject = ModelSubject(resolution, None, reference=reference)
    found = compute_overview(subject, None, request(), Monitor())
    while not found.is_complete:
        found = compute_overview(subject, found, request(), Monitor())
    assert {row.label: row.text for row in found.card.facts}["Kept energy"] == energy


def test_the_dead_channels_of_all_parameters_are_one_warning(resolved):
    step = {"method": "channels", "channels": [1], "dim": 0}
    card = complete(resolved(step, a=torch.eye(3), b=torch.eye(5)), request()).card
    assert [row[:2] for row in card.warnings.rows] == [
        ("2 of 2 matrices", "2 of 8 output channels dead in all of them")
    ]


def test_equal_findings_are_one_line_with_the_kind_of_the_parameters(resolved):
    names = [f"layers__{i}__self_attn__{r}_proj__weight" for i in range(3) for r in "qk"]
    weights = dict.fromkeys(names, torch.tensor([[0, 0, 1.0, 2.0]] * 4))
    weights |= {"fc__weight": torch.ones(4, 4), "norm__weight": torch.ones(4)}
    step = {"method": "channels", "channels": [1], "dim": 0, "targets": ["*q_proj*", "fc*"]}
    resolution = resolved(step, **weights)
    zeros = ZeroPatterns(zeros=8, total=16, shape=(4, 4), n_m="2:4")
    patterns = {name.replace("__", "."): zeros for name in names}
    subject = ModelSubject(resolution, None, FileZeros(patterns=patterns))
    found = compute_overview(subject, None, request(), Monitor())
    while not found.is_complete:
        found = compute_overview(subject, found, request(), Monitor())
    assert [row[:2] for row in found.card.patterns.rows] == [("6 of 6 attention matrices", "2:4")]
    assert [row[:2] for row in found.card.warnings.rows] == [
        ("4 of 7 matrices", "1 of 4 output channels dead")
    ]


def test_the_card_offers_to_remove_what_is_dead_unless_whole_units_are_pruned(tmp_path):
    up = "*.intermediate.dense.weight"
    rows = {"method": "channels", "targets": [up], "channels": [1]}
    units = {"method": "listed_units", "space": "ffn", "units": [1], "targets": [up]}
    rest = {"method": "dead_units", "targets": ["*"]}
    with open_checkpoint(write_bert(tmp_path)) as checkpoint:

        def offered(*steps):
            recipe = Recipe.model_validate({"steps": steps})
            return complete(resolve(recipe, checkpoint), request()).card.has_dead

        assert offered(rows)
        assert offered(rest, rows)
        assert not offered()
        assert not offered({**rows, "enabled": False})
        assert not offered(units)
        assert not offered(rows, rest)


def test_a_parameter_is_described_with_its_steps(resolved):
    found = complete(resolved(STEP, **WEIGHTS), request())
    lines = found.describe("layers.0.fc1.weight").splitlines()
    assert lines[0] == "layers.0.fc1.weight"
    assert "32 of 64 pruned (50.0 %)" in lines[1]
    assert lines[2] == "all by step 1: L1 unstructured"


def test_the_card_lists_zeros_and_patterns_of_the_file(resolved):
    resolution = resolved(a=torch.eye(4), b=torch.ones(4, 4))
    patterns = {"a": ZeroPatterns(zeros=12, total=16, shape=(4, 4), n_m="1:4")}
    zeros = FileZeros(counts={"a": 12, "b": 0}, patterns=patterns, done=1, elements=32)
    subject = ModelSubject(resolution, None, zeros)
    found = compute_overview(subject, None, request(), Monitor())
    texts = {row.label: row.text for row in found.card.facts}
    assert texts["Zero in the file"] == "37.5 %"
    assert [row[1:] for row in found.card.patterns.rows] == [("1:4", ("a",))]
    assert found.pictures["a"].zeros == 12
    assert found.pictures["b"].zeros is None
