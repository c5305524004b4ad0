"""Units of networks that no table knows: what is removed computes what zeros compute."""

import json
import runpy

import pytest
import torch
import yaml
from command_line import prune_gui as run_program
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from traced_networks import NETWORKS, Attention, SpatialGate

import prune_gui
from prune_gui.architecture.tables import load_table
from prune_gui.tracing.naming import as_yaml, named_as_in
from prune_gui.tracing.tracing import tied_names

TOLERANCE = 1e-5


def saved(model, path):
    save_file({name: one.clone() for name, one in model.state_dict().items()}, path)
    return path


def pruned(folder, model, table, amount):
    """Return the masked model's state and the loader of the compact one."""
    path = saved(model, folder / "model.safetensors")
    (folder / "table.yaml").write_text(as_yaml(table))
    steps = [
        {"method": "coupled", "space": space, "amount": amount, "targets": ["*"]}
        for space in table.spaces
    ]
    recipe = prune_gui.Recipe.from_yaml(
        yaml.safe_dump({"version": 1, "steps": steps, "table": str(folder / "table.yaml")})
    )
    with prune_gui.open_checkpoint(path) as checkpoint:
        resolution = prune_gui.resolve(recipe, checkpoint)
        prune_gui.export(resolution, folder / "masked.safetensors", overwrite=True)
        prune_gui.export(resolution, folder / "small.safetensors", "compact", overwrite=True)
    load = runpy.run_path(str(folder / "load_small_safetensors.py"))["load"]
    return load_file(folder / "masked.safetensors"), load


@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=4)
@given(st.integers(0, 9), st.sampled_from([0.25, 0.5, 0.7]))
def test_a_traced_network_without_units_computes_what_zeros_compute(
    tmp_path_factory, name, seed, amount
):
    torch.manual_seed(seed)
    model, inputs = NETWORKS[name]()
    model.eval()
    table = prune_gui.trace(model, inputs)
    masked, load = pruned(tmp_path_factory.mktemp("traced"), model, table, amount)
    torch.manual_seed(seed)
    small = load(NETWORKS[name]()[0]).eval()
    model.load_state_dict(masked)
    with torch.no_grad():
        torch.testing.assert_close(small(inputs), model(inputs), rtol=TOLERANCE, atol=TOLERANCE)
    assert sum(p.numel() for p in small.parameters()) < sum(p.numel() for p in model.parameters())


def test_a_network_that_refuses_a_state_without_versions_is_traced_and_loaded(tmp_path):
    class Versioned(nn.Sequential):
        _version = 2

        def _load_from_state_dict(self, state, prefix, metadata, *others):
            assert metadata["version"] == 2
            super()._load_from_state_dict(state, prefix, metadata, *others)

    def build():
        return Versioned(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    table = prune_gui.trace(build(), torch.randn(2, 4))
    _, load = pruned(tmp_path, build(), table, 0.5)
    assert load(build())[0].weight.shape == (4, 4)


@pytest.fixture(scope="module")
def tables():
    torch.manual_seed(0)
    return {name: prune_gui.trace(*build()) for name, build in NETWORKS.items()}


def groups_of(table):
    return {
        group.label: (
            group.size,
            {(one.name, one.dim): (one.offset, one.width) for one in group.members},
        )
        for space in table.spaces.values()
        for group in space.groups
    }


def test_a_concatenated_channel_is_at_its_offset_in_each_layer_that_reads_it(tables):
    groups = groups_of(tables["dense"])
    assert groups["stem"][0] == 6
    assert groups["stem"][1]["two.weight", 1] == (4, 1)
    assert groups["stem"][1]["three.weight", 0] == (4, 1)
    assert groups["two"][1]["three.weight", 0] == (10, 1)


def test_a_flattened_channel_has_a_column_for_each_position(tables):
    size, members = groups_of(tables["dense"])["three"]
    assert (size, members["head.weight", 1]) == (6, (0, 16))


def test_groups_of_a_convolution_lose_equally_many_channels(tables):
    groups = groups_of(tables["grouped"])
    size, members = groups["stem"]
    assert (size, members["wide.weight", 1]) == (4, (0, 1))
    assert next(size for size, slices in groups.values() if ("image.weight", 0) in slices) == 4
    wide = next(g for g in tables["grouped"].spaces["channels"].groups if g.label == "wide")
    assert wide.size == 4  # of 8 in each of 3 groups, which the next layer divides in 2
    starts = [one.offset for one in wide.members if one.name == "norm.bias"]
    assert starts == [0, 4, 8, 12, 16, 20]


def test_groups_of_a_convolution_go_as_a_whole_before_a_group_norm(tables):
    size, members = groups_of(tables["shuffled"])["mix"]
    assert size == 4
    [group] = [g for g in tables["shuffled"].spaces["channels"].groups if g.label == "mix"]
    assert group.attributes == ("grouped.groups",)
    assert members["mix.weight", 0] == (0, 2)
    assert members["grouped.weight", 0] == (0, 4)
    assert ("grouped.weight", 1) not in members


def test_a_pixel_shuffle_joins_the_channels_of_a_pixel(tables):
    size, members = groups_of(tables["shuffled"])["up"]
    assert (size, members["up.weight", 0], members["last.weight", 1]) == (3, (0, 4), (0, 1))


def test_halves_that_are_shuffled_keep_equally_many_channels(tables):
    size, members = groups_of(tables["halved"])["left"]
    assert (size, members["points.1.weight", 1], members["last.weight", 1]) == (4, (2, 4), (0, 8))


def test_heads_in_one_matrix_have_a_slice_in_each_third(tables):
    [heads] = tables["attention"].spaces["heads"].groups
    slices = [(one.offset, one.width) for one in heads.members if one.name == "qkv.weight"]
    assert (heads.size, slices) == (4, [(0, 6), (24, 6), (48, 6)])
    assert heads.attributes == ("heads",)


def test_heads_are_counted_where_a_network_runs_with_a_wrong_number_of_them():
    class Divided(Attention):
        def forward(self, x):
            self.width = self.out.weight.shape[1] // self.heads
            return super().forward(x)

    model = Divided(heads=4, width=8)
    model.bias = nn.Parameter(torch.zeros(1, 5, 5))  # does not tell the number
    space = prune_gui.trace(model, torch.randn(2, 5, 10)).spaces["heads"]
    assert space.exact
    assert space.groups[0].attributes == ("heads",)


def test_a_stage_whose_heads_cannot_be_halved_keeps_its_hidden_channels():
    class Stage(nn.Module):
        def __init__(self, heads, width):
            super().__init__()
            self.heads = heads
            self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)

        def forward(self, x):
            n, length, width = x.shape
            qkv = self.qkv(self.norm(x)).view(n, length, 3, self.heads, width // self.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
            return x + self.out(mixed.transpose(1, 2).reshape(n, length, width))

    layers = nn.Linear(3, 12), Stage(3, 12), nn.Linear(12, 16), Stage(4, 16), nn.Linear(16, 2)
    table = prune_gui.trace(nn.Sequential(*layers), torch.randn(2, 5, 3))
    assert [group.label for group in table.spaces["heads"].groups] == ["3.qkv"]
    assert [group.label for group in table.spaces["hidden"].groups] == ["2"]


def test_heads_are_a_dimension_of_parameters_that_a_view_joins_with_another(tables):
    size, members = groups_of(tables["einsum"])["query"]
    assert (size, members["query", 1], members["out", 0]) == (4, (0, 1), (0, 1))
    assert members["positions.weight", 1] == (0, 1)


def test_heads_of_learned_queries_go_with_those_of_keys_and_values():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.queries = nn.Parameter(torch.randn(1, 3, 8))
            self.query, self.both, self.out = nn.Linear(8, 8), nn.Linear(8, 16), nn.Linear(8, 8)

        def forward(self, x):
            key, value = self.both(x).chunk(2, -1)
            heads = (
                one.view(len(one), one.shape[1], -1, 2).transpose(1, 2)
                for one in (self.query(self.queries.expand(len(x), -1, -1)), key, value)
            )
            mixed = functional.scaled_dot_product_attention(*heads)
            return self.out(mixed.transpose(1, 2).flatten(2))

    [heads] = prune_gui.trace(Pooled(), torch.randn(2, 5, 8)).spaces["heads"].groups
    slices = {(one.name, one.offset, one.width) for one in heads.members if not one.dim}
    assert heads.size == 4
    assert {("query.weight", 0, 2), ("both.weight", 0, 2), ("both.weight", 8, 2)} < slices


def test_units_of_recurrent_layers_go_from_each_gate(tables):
    groups = tables["recurrent"].spaces["channels"].groups
    [both] = [one for one in groups if one.label == "both.weight_ih_l0"]
    slices = [one.offset for one in both.members if one.name == "both.weight_hh_l1_reverse"]
    assert (both.size, slices) == (10, [0, 10, 20, 30, 0])
    assert {one.role for one in both.members if "bias" in one.name} == {"bias"}
    assert "both.hidden_size" in both.attributes


def test_rows_that_are_gathered_and_added_where_edges_end_lose_no_unit(tables):
    groups = groups_of(tables["messages"])
    assert {label: size for label, (size, _) in groups.items()} == {
        "inputs": 12, "one": 16, "two": 12
    }  # fmt: skip


def test_a_gated_layer_has_a_neuron_in_both_halves(tables):
    members = next(g for g in tables["attention"].spaces["channels"].groups if g.size == 12).members
    assert [(one.offset, one.width) for one in members if one.name == "up.weight"] == [
        (0, 1),
        (12, 1),
    ]


def test_a_convolution_over_positions_keeps_channels_apart():
    table = prune_gui.trace(SpatialGate(), torch.randn(2, 5, 6))
    [group] = table.spaces["hidden"].groups
    members = {(one.name, one.dim, one.offset) for one in group.members}
    assert {("up.weight", 0, 0), ("up.weight", 0, 8), ("down.weight", 1, 0)} < members


def test_padding_of_images_keeps_no_channel():
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 2, 3)

        def forward(self, x):
            return self.two(nn.functional.pad(self.one(x), (1, 1, 1, 1)))

    assert list(groups_of(prune_gui.trace(Padded(), torch.randn(1, 3, 6, 6)))) == ["one"]


def test_channels_over_which_a_norm_is_computed_are_not_exact():
    layers = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)
    table = prune_gui.trace(nn.Sequential(*layers), torch.randn(2, 4))
    assert [(name, space.exact) for name, space in table.spaces.items()] == [
        ("channels", True),
        ("hidden", False),
    ]


def test_a_network_on_meta_has_the_units_of_a_real_one(tables):
    model, inputs = NETWORKS["dense"]()
    table = prune_gui.trace(model.to("meta"), inputs)
    assert table.spaces == tables["dense"].spaces
    assert "not tried" in table.unknown[0]


def test_a_table_survives_a_round_trip(tables, tmp_path):
    for table in tables.values():
        (tmp_path / "table.yaml").write_text(as_yaml(table))
        assert load_table(tmp_path / "table.yaml") == table


def test_an_operator_that_is_not_understood_keeps_its_channels_and_is_named():
    class Sorted(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.three = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)

        def forward(self, x):
            return self.three(self.two(torch.sort(self.one(x))[0]))

    table = prune_gui.trace(Sorted(), torch.randn(2, 4))
    assert list(groups_of(table)) == ["two"]
    assert "sort" in table.unknown[0]


def test_names_follow_the_checkpoint(tables, tmp_path):
    model, _ = NETWORKS["dense"]()
    path = saved(nn.ModuleDict({"net": model}), tmp_path / "model.safetensors")
    shapes = {name: tuple(one.shape) for name, one in model.state_dict().items()}
    with prune_gui.open_checkpoint(path) as checkpoint:
        table = named_as_in(checkpoint, tables["dense"], shapes, {"stem.weight": ["stem.weight"]})
    assert table.spaces["channels"].groups[0].members[0].name == "net.stem.weight"


def test_a_tied_tensor_is_cut_under_each_name_that_the_file_has(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
            self.head.weight = self.embedding.weight
            self.scale = nn.Parameter(torch.rand(6))

        def forward(self, ids):
            return self.head(self.embedding(ids) * self.scale)

    model = Tied()
    table = prune_gui.trace(model, torch.tensor([[1, 2]]))
    shapes = {name: tuple(one.shape) for name, one in model.state_dict().items()}
    with prune_gui.open_checkpoint(saved(model, tmp_path / "tied.safetensors")) as checkpoint:
        named = named_as_in(checkpoint, table, shapes, tied_names(model))
    [group] = named.spaces["channels"].groups
    assert {(one.name, one.dim) for one in group.members} == {
        ("embedding.weight", 1),
        ("head.weight", 1),
        ("scale", 0),
    }


BUILDER = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1)), torch.zeros(1, 3, 8, 8)

def wrong():
    return nn.Linear(2, 2)

def failing():
    raise ValueError("no data")
"""


@pytest.fixture
def traced_files(tmp_path):
    (tmp_path / "my.py").write_text(BUILDER)
    saved(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 1)),
        tmp_path / "net.safetensors",
    )
    return tmp_path


def run(folder, function, *options):
    arguments = f"{folder}/my.py:{function}", folder / "net.safetensors", "-o", folder / "t.yaml"
    return run_program("trace", *arguments, *options)


def test_the_command_writes_a_table_that_compact_takes(traced_files):
    result = run(traced_files, "build", "--json")
    assert result.returncode == 0, result.stderr
    [units] = json.loads(result.stdout)["units"]
    assert units == {
        "space": "channels",
        "groups": 1,
        "units": 8,
        "exact": True,
        "loadable_with": [],
    }
    steps = [{"method": "coupled", "space": "channels", "amount": 0.5, "targets": ["*"]}]
    (traced_files / "r.yaml").write_text(yaml.safe_dump({"version": 1, "steps": steps}))
    options = "--recipe", traced_files / "r.yaml", "--table", traced_files / "t.yaml"
    arguments = "compact", traced_files / "net.safetensors", *options, "--dry-run", "--json"
    result = run_program(*arguments)
    assert json.loads(result.stdout)["after"]["parameters"] == 4 * 28 + 2 * 5


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("wrong", "must return a torch.nn.Module and an example input"),
        ("missing", "has no function missing. It has: build, wrong, failing."),
        ("failing", "ValueError: no data (my.py, line 12)"),
    ],
)
def test_what_is_wrong_with_the_code_is_told(traced_files, function, told):
    result = run(traced_files, function)
    assert result.returncode
    assert told in result.stderr
    assert not (traced_files / "t.yaml").exists()


def test_a_table_gets_a_name_of_one_before_the_network_runs(traced_files):
    result = run_program("trace", "no.py:build", "net.safetensors", "-o", traced_files / "t.html")
    assert result.returncode == 1
    assert "t.html was not written: its name must end in one of .yaml, .yml." in result.stderr
