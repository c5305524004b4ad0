"""Models in memory are reconstructed block by block."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn

from prune_gui import Recipe, reconstruct
from prune_gui.errors import Cancelled, ReconstructionError
from prune_gui.reconstruction.running import BlockError

WIDTH = 16


class Block(nn.Module):
    def __init__(self, *, as_tuple: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH)
        self.as_tuple = as_tuple

    def forward(self, hidden, scale=1.0):
        inner = torch.relu(self.first(hidden)) * torch.sigmoid(self.gate(hidden))
        output = hidden + scale * self.second(inner)
        return (output, None) if self.as_tuple else output


class Network(nn.Module):
    def __init__(self, *, as_tuple: bool = False) -> None:
        super().__init__()
        self.embed = nn.Linear(8, WIDTH)
        self.blocks = nn.ModuleList(Block(as_tuple=as_tuple) for _ in range(3))
        self.as_tuple = as_tuple

    def forward(self, inputs):
        hidden = self.embed(inputs)
        for block in self.blocks:
            output = block(hidden, scale=0.5)
            hidden = output[0] if self.as_tuple else output
        return hidden


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Network().eval()


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(1)
    mix = torch.randn(8, 8, generator=generator)
    return [torch.randn(40, 8, generator=generator) @ mix for _ in range(6)]


def recipe(**step):
    return Recipe.model_validate({"steps": [{"targets": ["blocks.*.weight"], **step}]})


def loss(pruned, dense, batches):
    with torch.no_grad():
        return float(sum((pruned(one) - dense(one)).square().sum() for one in batches))


STEPS = {
    "uniform": {"method": "l1_unstructured", "amount": 0.6},
    "global": {"method": "l1_unstructured", "scope": "global", "amount": 0.6},
    "row": {"method": "l1_unstructured", "scope": "row", "amount": 0.5},
    "2:4": {"method": "n_m"},
    "block": {"method": "block", "height": 4, "width": 4, "amount": 0.5},
    "input": {"method": "ln_structured", "dim": 1, "amount": 0.25},
}


@pytest.mark.parametrize("name", STEPS)
def test_the_pattern_of_the_recipe_is_kept_with_a_smaller_loss(network, batches, name):
    dense, corrected = copy.deepcopy(network), copy.deepcopy(network)
    reconstruct(corrected, recipe(**STEPS[name]), batches, choose=False)
    found = reconstruct(network, recipe(**STEPS[name]), batches)
    assert loss(network, dense, batches) < loss(corrected, dense, batches)
    for layer, weight in zip(found.layers, _weights(network, found), strict=True):
        assert int((weight != 0).sum()) == layer.kept
        if name == "row":
            assert (weight != 0).sum(1).unique().numel() == 1
        elif name == "2:4":
            assert ((weight.view(-1, 4) != 0).sum(1) == 2).all()
        elif name == "block":
            grid = weight.view(len(weight) // 4, 4, -1, 4).movedim(2, 1).flatten(2)
            assert ((grid != 0).all(2) | (grid == 0).all(2)).all()
        elif name == "input":
            assert ((weight != 0).all(0) | (weight == 0).all(0)).all()
    kept = [int((weight != 0).sum()) for weight in _weights(corrected, found)]
    assert kept == [layer.kept for layer in found.layers]


def _weights(network, found):
    return [network.get_parameter(layer.name) for layer in found.layers]


def test_the_masks_of_scores_that_a_recipe_names_are_kept(network, batches):
    step = {"method": "l1_unstructured", "amount": 0.5, "score": "ria"}
    chosen = copy.deepcopy(network)
    reconstruct(network, recipe(**step), batches, choose=False)
    reconstruct(chosen, recipe(**step), batches)
    for ours, theirs in zip(network.parameters(), chosen.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_tuning_brings_the_outputs_of_blocks_closer_and_leaves_the_masks(network, batches):
    solved = copy.deepcopy(network)
    reconstruct(solved, recipe(**STEPS["2:4"]), batches)
    found = reconstruct(network, recipe(**STEPS["2:4"]), batches, tuning_steps=60, rate=1e-3)
    assert all(block.after < block.before for block in found.blocks)
    assert torch.equal(solved.blocks[0].first.weight != 0, network.blocks[0].first.weight != 0)


def test_a_block_that_tuning_makes_worse_is_as_solved(network, batches):
    solved = copy.deepcopy(network)
    reconstruct(solved, recipe(**STEPS["2:4"]), batches)
    found = reconstruct(network, recipe(**STEPS["2:4"]), batches, tuning_steps=5, rate=1e3)
    assert all(block.after == block.before for block in found.blocks)
    for name, value in solved.state_dict().items():
        assert torch.equal(network.state_dict()[name], value)


def test_inputs_that_are_not_finite_are_refused(network, batches):
    batches[0][0, 0] = float("inf")
    with pytest.raises(ReconstructionError, match=r"inputs of first\.weight are not finite"):
        reconstruct(network, recipe(**STEPS["2:4"]), batches)


def test_blocks_may_return_their_output_in_a_tuple(batches):
    torch.manual_seed(0)
    plain = Network().eval()
    network = Network(as_tuple=True).eval()
    network.load_state_dict(plain.state_dict())
    for one in (plain, network):
        reconstruct(one, recipe(**STEPS["uniform"]), batches)
    assert torch.equal(plain.blocks[2].second.weight, network.blocks[2].second.weight)


def test_a_network_without_a_list_of_blocks_is_one_block(batches):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4)
    )
    inputs = [batch[:, None] for batch in batches]
    dense, corrected = copy.deepcopy(network), copy.deepcopy(network)
    step = Recipe.model_validate(
        {"steps": [{"method": "l1_unstructured", "amount": 0.5, "targets": ["*.weight"]}]}
    )
    reconstruct(corrected, step, inputs, blocks=[corrected], choose=False)
    [block] = reconstruct(network, step, inputs, blocks=[network]).blocks
    assert [layer.name for layer in block.layers] == ["0.weight", "3.weight"]
    assert loss(network, dense, inputs) < loss(corrected, dense, inputs)


def test_errors_are_reported_as_they_come_in(network, batches):
    seen = []
    found = reconstruct(network, recipe(**STEPS["uniform"]), batches, report=seen.append)
    assert seen == [one for block in found.blocks for one in (*block.layers, block)]
    assert [block.number for block in found.blocks] == [0, 1, 2]
    assert all(0 < layer.error < 1 for layer in found.layers)
    assert all(first.before < second.before for first, second in pairwise(found.blocks))


def test_it_can_be_cancelled_between_blocks(network, batches):
    class Flag:
        stopped = False

        def is_set(self):
            return self.stopped

    flag, dense = Flag(), copy.deepcopy(network)

    def stop(found):
        flag.stopped = isinstance(found, BlockError)

    with pytest.raises(Cancelled):
        reconstruct(network, recipe(**STEPS["uniform"]), batches, cancel=flag, report=stop)
    assert torch.equal(network.blocks[1].first.weight, dense.blocks[1].first.weight)


@pytest.mark.parametrize(
    ("targets", "blocks", "wanted"),
    [
        (["embed.weight"], None, "No step of the recipe prunes a parameter of the blocks"),
        (["blocks.*.weight"], [], "No step of the recipe"),
    ],
)
def test_what_prunes_no_block_is_refused(network, batches, targets, blocks, wanted):
    step = {"method": "l1_unstructured", "targets": targets}
    with pytest.raises(ReconstructionError, match=wanted):
        reconstruct(network, Recipe.model_validate({"steps": [step]}), batches, blocks=blocks)


def test_networks_with_other_lists_are_refused_before_anything_is_pruned(network, batches):
    two = nn.ModuleDict({"a": network, "b": copy.deepcopy(network)})
    with pytest.raises(ReconstructionError, match=r"ModuleDict has 2 lists of blocks \(a.blocks"):
        reconstruct(two, recipe(**STEPS["uniform"]), batches)
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(ReconstructionError, match="does not pass the output"):
        reconstruct(network, recipe(**STEPS["uniform"]), batches, blocks=list(network.blocks)[::-1])
    with pytest.raises(ReconstructionError, match="no calibration data"):
        reconstruct(network, recipe(**STEPS["uniform"]), [])
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
