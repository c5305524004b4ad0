"""Which units can be removed."""

import numpy as np
import pytest
import torch
from compact_networks import blocks_group, channels, ffn_group, neurons, resolved, saved_mlp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.errors import RecipeError
from prune_gui.monitor import Monitor
from prune_gui.pruning.layouts import CoupledGroup, Member
from prune_gui.pruning.predicates import ChannelCut
from prune_gui.recipe import form_tensors
from prune_gui.recipe.compaction import network
from prune_gui.recipe.compaction.network import Renumbering, removable_units
from prune_gui.recipe.form_tensors import sliced, sliced_shape

some_steps = st.lists(
    st.one_of(
        st.builds(
            lambda layer, which: neurons(layer, sorted(which)),
            st.sampled_from(["*", 0, 1]),
            st.sets(st.integers(0, 7), min_size=1),
        ),
        st.builds(
            lambda name, amount: [
                {"method": "l1_unstructured", "targets": [name], "amount": amount}
            ],
            st.sampled_from(["*.weight", "*.up.*", "layers.0.*"]),
            st.sampled_from([0.3, 0.9, 0.97]),
        ),
    ),
    max_size=3,
).map(lambda lists: [step for steps in lists for step in steps])


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(some_steps, st.sampled_from([1, 2, 4]))
def test_a_unit_goes_if_and_only_if_the_masks_of_all_its_slices_are_empty(
    tmp_path_factory, steps, width
):
    saved = saved_mlp(tmp_path_factory.mktemp("m"))
    groups = [ffn_group(layer, 8 // width, width) for layer in range(3)] + [blocks_group(3)]
    with open_checkpoint(saved.folder) as checkpoint:
        resolution = resolved(checkpoint, steps)
        found = removable_units(resolution, groups, Monitor())
        for group, units in zip(groups, found, strict=True):
            for unit in range(group.size):
                kept = 0
                for member in group.members:
                    mask = resolution.mask(member.name)
                    if member.dim is None:
                        kept += int(mask.sum()) if member.offset == unit else 0
                    else:
                        start = unit * member.width
                        kept += int(mask.narrow(member.dim, start, member.width).sum())
                assert units[unit] == (kept == 0)


def test_zeros_of_the_file_count_if_the_recipe_starts_from_them(tmp_path):
    saved = saved_mlp(tmp_path)
    for name, dim in (("up.weight", 0), ("up.bias", 0), ("down.weight", 1)):
        saved.state[f"layers.1.{name}"].narrow(dim, 2, 3).zero_()
    save_file(saved.state, tmp_path / "model.safetensors")
    with open_checkpoint(tmp_path) as checkpoint:
        for start, expected in (("zeros", [2, 3, 4]), ("dense", [])):
            [units] = removable_units(resolved(checkpoint, [], start), [ffn_group(1, 8)], Monitor())
            assert list(np.flatnonzero(units)) == expected


def test_no_values_are_read_if_steps_on_channels_tell_all(tmp_path, monkeypatch):
    saved = saved_mlp(tmp_path)
    monkeypatch.setattr(network, "count_per_channel", lambda *_: pytest.fail("counted"))
    monkeypatch.setattr(ChannelCut, "mark", lambda *_: pytest.fail("marked"))
    with open_checkpoint(saved.folder) as checkpoint:
        resolution = resolved(checkpoint, neurons("*", [1, 6]))
        for units in removable_units(resolution, [ffn_group(0, 8)], Monitor()):
            assert list(np.flatnonzero(units)) == [1, 6]


def test_a_unit_of_a_tied_tensor_stays_if_another_layer_needs_it(tmp_path):
    shared = torch.randn(4, 3)
    state = {"0.up.weight": shared, "1.up.weight": shared, "0.down": torch.randn(2, 4)}
    torch.save({**state, "1.down": torch.randn(2, 4)}, tmp_path / "m.pt")
    groups = [
        CoupledGroup("ffn", str(i), 4, (Member(f"{i}.up.weight", 0), Member(f"{i}.down", 1)))
        for i in range(2)
    ]
    steps = [
        channels("0.up.weight", 0, [0, 1]),
        channels("0.down", 1, [0, 1]),
        channels("1.down", 1, [1, 2]),
    ]
    with open_checkpoint(tmp_path / "m.pt") as checkpoint:
        found = removable_units(resolved(checkpoint, steps), groups, Monitor())
    assert [list(np.flatnonzero(units)) for units in found] == [[1], [1]]


def test_buffers_do_not_keep_a_block(on_disk):
    state = {"h.0.w": torch.ones(2), "h.0.causal": torch.ones(2, dtype=torch.bool)}
    checkpoint = on_disk({**state, "h.1.w": torch.ones(2)})
    members = (Member("h.0.w", None, 0), Member("h.0.causal", None, 0), Member("h.1.w", None, 1))
    resolution = resolved(checkpoint, [channels("h.0.w", 0, [0, 1])])
    group = CoupledGroup("layers", "h", 2, members)
    assert removable_units(resolution, [group], Monitor())[0].tolist() == [True, False]


def test_a_member_that_the_file_lacks_is_one_clear_error(tmp_path):
    saved = saved_mlp(tmp_path)
    with open_checkpoint(saved.folder) as checkpoint:
        resolution = resolved(checkpoint, neurons(0, [1]))
        with pytest.raises(RecipeError, match=r"no tensor layers\.7\.up\.weight.*table"):
            removable_units(resolution, [ffn_group(7, 8)], Monitor())


def flags(size, gone):
    return np.isin(np.arange(size), list(gone))


@given(st.integers(1, 6), st.integers(1, 5), st.data())
def test_experts_in_renumbered_layers_are_renumbered_themselves(layers, experts, data):
    gone = data.draw(st.sets(st.integers(0, layers - 1)))
    experts_gone = [data.draw(st.sets(st.integers(0, experts - 1))) for _ in range(layers)]
    name = "model.layers.{}.experts.{}.w".format
    names = [name(i, j) for i in range(layers) for j in range(experts)]
    blocks = CoupledGroup(
        "layers",
        "model.layers",
        layers,
        tuple(Member(each, None, int(each.split(".")[2]), number_at=2) for each in names),
    )
    groups = [blocks] + [
        CoupledGroup(
            "experts",
            f"model.layers.{i}",
            experts,
            tuple(Member(name(i, j), None, j, number_at=4) for j in range(experts)),
        )
        for i in range(layers)
    ]
    removed = [flags(layers, gone), *(flags(experts, some) for some in experts_gone)]
    renumbering = Renumbering(zip(groups, removed, strict=True), names)
    expected = [
        name(new_i, new_j)
        for new_i, i in enumerate(i for i in range(layers) if i not in gone)
        for new_j, _ in enumerate(j for j in range(experts) if j not in experts_gone[i])
    ]
    assert [new for each in names if (new := renumbering.new_key(each))] == expected


def test_what_is_common_to_all_blocks_stays_in_the_first_and_aliases_go_along():
    members = [Member(f"block.{i}.w", None, i, number_at=1) for i in range(3)]
    group = CoupledGroup("layers", "block", 3, tuple(members))
    names = ["block.0.bias_of_all", *(member.name for member in members)]
    renumbering = Renumbering([(group, flags(3, {0}))], names)
    assert renumbering.new_key("block.0.bias_of_all") == "block.0.bias_of_all"
    assert renumbering.new_key("block.0.w") is None
    assert renumbering.new_key("block.2.w") == "block.1.w"
    assert renumbering.new_key("block.2.alias") == "block.1.alias"


@pytest.mark.parametrize(
    ("numbers", "expected"), [((4, 5, 9), ("4", "5")), ((0, 1, 2), ("0", "1"))]
)
def test_remaining_blocks_get_the_first_of_the_old_numbers(numbers, expected):
    members = tuple(Member(f"b.{n}.w", None, i, number_at=1) for i, n in enumerate(numbers))
    group = CoupledGroup("layers", "b", 3, members)
    renumbering = Renumbering([(group, flags(3, {1}))], [member.name for member in members])
    new = [renumbering.new_key(members[i].name) for i in (0, 2)]
    assert new == [f"b.{number}.w" for number in expected]


DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float64]


@st.composite
def cut_tensors(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    kept = {}
    for dim in draw(st.sets(st.integers(0, len(shape) - 1))):
        flags = draw(st.lists(st.booleans(), min_size=shape[dim], max_size=shape[dim]))
        if any(flags):
            kept[dim] = np.flatnonzero(flags)
    dtype = draw(st.sampled_from(DTYPES))
    return torch.arange(np.prod(shape)).reshape(shape).to(dtype), kept


@given(cut_tensors(), st.integers(1, 40), st.integers(1, 40), st.integers(0, 9), st.data())
def test_any_span_is_that_of_the_indexed_tensor(cut, row, batch, gap, data):
    tensor, kept = cut
    expected = tensor
    for dim, index in kept.items():
        raw = expected.contiguous().view(torch.uint8).reshape(*expected.shape, -1)
        picked = raw.index_select(dim, torch.from_numpy(index)).contiguous()
        expected = picked.view(tensor.dtype).reshape(picked.shape[:-1])
    assert sliced_shape(tuple(tensor.shape), kept) == tuple(expected.shape)
    start = data.draw(st.integers(0, expected.numel() - 1))
    stop = data.draw(st.integers(start + 1, expected.numel()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form_tensors, "MAX_ROW_ELEMENTS", row)
        patch.setattr(form_tensors, "BATCH_ELEMENTS", batch)
        patch.setattr(form_tensors, "MAX_GAP_ELEMENTS", gap)
        (values,) = sliced(tensor.reshape(-1), tuple(tensor.shape), kept, (), [(start, stop)])
    expected = expected.reshape(-1)[start:stop]
    assert values.dtype == tensor.dtype
    assert torch.equal(values.view(torch.uint8), expected.contiguous().view(torch.uint8))
