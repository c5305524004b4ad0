"""Which units can be removed."""

from __future__ import annotations

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
from prune_gui.recipe.compaction import removal
from prune_gui.recipe.compaction.removal import removable_units

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
    monkeypatch.setattr(removal, "count_per_channel", lambda *_: pytest.fail("counted"))
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


def test_buffers_do_not_keep_a_block(tmp_path):
    state = {"h.0.w": torch.ones(2), "h.0.causal": torch.ones(2, dtype=torch.bool)}
    save_file({**state, "h.1.w": torch.ones(2)}, tmp_path / "m.safetensors")
    members = (Member("h.0.w", None, 0), Member("h.0.causal", None, 0), Member("h.1.w", None, 1))
    with open_checkpoint(tmp_path / "m.safetensors") as checkpoint:
        resolution = resolved(checkpoint, [channels("h.0.w", 0, [0, 1])])
        group = CoupledGroup("layers", "h", 2, members)
        assert removable_units(resolution, [group], Monitor())[0].tolist() == [True, False]


def test_a_member_that_the_file_lacks_is_one_clear_error(tmp_path):
    saved = saved_mlp(tmp_path)
    with open_checkpoint(saved.folder) as checkpoint:
        resolution = resolved(checkpoint, neurons(0, [1]))
        with pytest.raises(RecipeError, match=r"no tensor layers\.7\.up\.weight.*table"):
            removable_units(resolution, [ffn_group(7, 8)], Monitor())
