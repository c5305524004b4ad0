"""Models in memory are reconstructed block by block."""

import copy
from itertools import pairwise, product
from math import inf, nan

import pytest
import torch
from torch import nn

from prune_gui import Recipe, reconstruct
from prune_gui.errors import Cancelled, ReconstructionError
from prune_gui.reconstruction.running import BlockError

WIDTH = 16
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", STEPS)
def test_the_pattern_of_the_recipe_is_kept_with_a_smaller_loss(network, batches, name, device):
    network, batches = network.to(device), [batch.to(device) for batch in batches]
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


def chain():
    torch.manual_seed(0)
    layers = nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4)
    return nn.Sequential(*layers).eval()


CHANNELS = {"method": "coupled", "space": "channels", "amount": 0.5, "targets": ["*"]}


def test_the_layers_that_read_coupled_units_make_up_for_those_that_go(batches):
    pruned, dense = chain(), chain()
    found = reconstruct(
        pruned, recipe(**CHANNELS), batches, blocks=[pruned], choose=False, damping=0
    )
    inputs = torch.cat(batches)
    with torch.no_grad():
        for first, read, count in ((0, 2, 12), (2, 4, 8)):
            kept = (pruned[first].weight != 0).any(1)
            assert int(kept.sum()) == count
            assert not pruned[first].bias[~kept].any()
            assert not pruned[read].weight[:, ~kept].any()
        # units of the recipe: what remains of a layer is not changed by what reads it
        assert torch.equal(
            pruned[0].weight[kept_of(pruned, 0)], dense[0].weight[kept_of(pruned, 0)]
        )
        hidden = dense[:2](inputs)[:, kept_of(pruned, 0)]
        wanted = dense[:2](inputs) @ dense[2].weight.T
        solved = torch.linalg.lstsq(hidden.double(), wanted.double()).solution.T.float()
        rows = kept_of(pruned, 2)
        torch.testing.assert_close(
            pruned[2].weight[rows][:, kept_of(pruned, 0)], solved[rows], rtol=1e-2, atol=1e-3
        )
    assert {layer.name: layer.kept for layer in found.layers} == {
        "0.weight": 12 * 8, "0.bias": 12, "2.weight": 12 * 8, "2.bias": 8, "4.weight": 4 * 8
    }  # fmt: skip


def test_units_of_which_another_step_prunes_a_slice_are_those_of_the_recipe(batches):
    steps = [CHANNELS, {"method": "l1_unstructured", "amount": 0.5, "targets": ["0.weight"]}]
    pruned, masked = chain(), chain()
    reconstruct(pruned, Recipe.model_validate({"steps": steps}), batches, blocks=[pruned])
    reconstruct(masked, recipe(**CHANNELS), batches, blocks=[masked], choose=False)
    assert torch.equal(kept_of(pruned, 0), kept_of(masked, 0))
    assert not pruned[2].weight[:, ~kept_of(pruned, 0)].any()


def kept_of(network, layer):
    return (network[layer].weight != 0).any(1)


def test_units_are_chosen_with_a_smaller_loss(batches):
    chosen, ranked, dense = chain(), chain(), chain()
    reconstruct(chosen, recipe(**CHANNELS), batches, blocks=[chosen])
    reconstruct(ranked, recipe(**CHANNELS), batches, blocks=[ranked], choose=False)
    assert loss(chosen, dense, batches) < loss(ranked, dense, batches)
    for layer in (0, 2):
        kept = kept_of(chosen, layer)
        assert int(kept.sum()) == len(kept) // 2
        assert not chosen[layer + 2].weight[:, ~kept].any()


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
        (["embed.weight"], slice(None), "No step of the recipe prunes a parameter of the blocks"),
        (["blocks.*.weight"], slice(0), "No step of the recipe"),
    ],
)
def test_what_prunes_no_block_is_refused(network, batches, targets, blocks, wanted):
    step = {"method": "l1_unstructured", "targets": targets}
    with pytest.raises(ReconstructionError, match=wanted):
        reconstruct(
            network,
            Recipe.model_validate({"steps": [step]}),
            batches,
            blocks=network.blocks[blocks],
        )


class Towers(nn.Module):
    """An encoder, and a decoder whose blocks get the output of the encoder, too."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder, self.encoder = Network(), Network()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, inputs):
        scale = self.norm(self.encoder(inputs)).sigmoid()
        hidden = self.decoder.embed(inputs)
        for block in self.decoder.blocks:
            hidden = block(hidden, scale)
        return hidden


def test_lists_of_blocks_are_pruned_in_the_order_in_which_they_run(batches):
    torch.manual_seed(0)
    network = Towers().eval()
    dense, corrected = copy.deepcopy(network), copy.deepcopy(network)
    step = Recipe.model_validate({"steps": [{"method": "n_m", "targets": ["*.blocks.*.weight"]}]})
    reconstruct(corrected, step, batches, choose=False)
    found = reconstruct(network, step, batches)
    assert [block.number for block in found.blocks] == [3, 4, 5, 0, 1, 2]
    assert found.layers[0].name == "encoder.blocks.0.first.weight"
    assert loss(network, dense, batches) < loss(corrected, dense, batches)
    # the last block was solved for what the pruned encoder gives
    with torch.no_grad():
        outputs, wanted = [], []
        for batch in batches:
            outputs.append(network(batch))
            wanted.append(dense(batch))
    lost = (torch.cat(outputs) - torch.cat(wanted)).square().sum()
    error = lost / torch.cat(wanted).square().sum()
    torch.testing.assert_close(torch.tensor(found.blocks[-1].after), error)


def test_a_network_whose_blocks_depend_on_one_another_otherwise_is_one_block(network, batches):
    class Skipping(Network):
        def forward(self, inputs):
            first = self.blocks[0](self.embed(inputs), scale=0.5)
            second = self.blocks[1](first, scale=0.5)
            return self.blocks[2](second + first, scale=0.5)

    skipping = Skipping().eval()
    skipping.load_state_dict(network.state_dict())
    dense = copy.deepcopy(skipping)
    found = reconstruct(skipping, recipe(**STEPS["2:4"]), batches)
    assert len(found.blocks) == 1
    assert len(found.layers) == 9
    with torch.no_grad():
        energy = sum(float(dense(batch).square().sum()) for batch in batches)
    assert loss(skipping, dense, batches) < 0.5 * energy


def test_layers_outside_of_the_blocks_are_pruned_with_the_network_as_one_block(network, batches):
    step = Recipe.model_validate(
        {"steps": [{"method": "l1_unstructured", "amount": 0.5, "targets": ["*.weight"]}]}
    )
    found = reconstruct(network, step, batches)
    assert [layer.name for layer in found.layers][:2] == ["embed.weight", "blocks.0.first.weight"]
    assert all(layer.error is not None for layer in found.layers)


def test_convolutions_of_a_sequence_are_pruned_block_by_block():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6()),
        nn.Sequential(nn.Conv2d(8, 8, 3, stride=2, groups=8), nn.ReLU6(inplace=True)),
        nn.Sequential(nn.Conv2d(8, 12, 3, groups=2), nn.ReLU6()),
        nn.AdaptiveAvgPool2d(1),
    ).eval()
    images = [torch.randn(8, 3, 12, 12) for _ in range(4)]
    dense, corrected = copy.deepcopy(network), copy.deepcopy(network)
    step = Recipe.model_validate(
        {"steps": [{"method": "l1_unstructured", "amount": 0.5, "targets": ["*.0.weight"]}]}
    )
    reconstruct(corrected, step, images, choose=False)
    found = reconstruct(network, step, images)
    assert [layer.name for layer in found.layers] == ["0.0.weight", "1.0.weight", "2.0.weight"]
    assert loss(network, dense, images) < loss(corrected, dense, images)


class Attention(nn.Module):
    """Blocks with attention, as an encoder has them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, WIDTH)
        self.layers = nn.ModuleList(AttentionBlock() for _ in range(2))

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids)
        for block in self.layers:
            hidden = block(hidden, attention_mask[:, None, :].bool())
        return hidden


class AttentionBlock(nn.Module):
    """Attention over positions that are no padding, and a layer after it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden, mask):
        q, k, v = self.qkv(hidden).chunk(3, -1)
        scores = (q @ k.mT).masked_fill(~mask, -torch.inf)
        return hidden + self.out(torch.relu(scores.softmax(-1) @ v))


def test_padding_counts_neither_in_the_solution_nor_in_the_errors():
    torch.manual_seed(0)
    network = Attention().eval()
    other = copy.deepcopy(network)
    ids = [torch.randint(1, 50, (6, length)) for length in (5, 9, 12)]
    plain = [{"input_ids": one, "attention_mask": torch.ones_like(one)} for one in ids]
    padded = [
        {key: nn.functional.pad(value, (0, 4), value=0) for key, value in batch.items()}
        for batch in plain
    ]
    step = Recipe.model_validate({"steps": [{"method": "n_m", "targets": ["layers.*.weight"]}]})
    found, expected = (
        reconstruct(model, step, data, forward=lambda model, b: model(**b))
        for model, data in ((network, padded), (other, plain))
    )
    for ours, theirs in zip(found.layers, expected.layers, strict=True):
        assert ours.error == pytest.approx(theirs.error, rel=1e-3)
    for ours, theirs in zip(found.blocks, expected.blocks, strict=True):
        assert ours.before == pytest.approx(theirs.before, rel=1e-3)
    for ours, theirs in zip(network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_what_cannot_run_is_refused_before_anything_is_pruned(network, batches):
    before = copy.deepcopy(network.state_dict())
    reversed_blocks = list(network.blocks)[::-1]
    with pytest.raises(ReconstructionError, match=r"block by block: blocks.0 does not get"):
        reconstruct(network, recipe(**STEPS["uniform"]), batches, blocks=reversed_blocks)
    with pytest.raises(ReconstructionError, match="no calibration data"):
        reconstruct(network, recipe(**STEPS["uniform"]), [])
    with pytest.raises(ReconstructionError, match=r"cannot run the first batch.*shapes"):
        reconstruct(network, recipe(**STEPS["uniform"]), [torch.ones(2, 5)])
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *product(["damping", "iterations", "tuning_steps", "spread", "rate"], [nan, inf, -1]),
        ("iterations", 0),
        ("rate", 0),
    ],
)
def test_numbers_out_of_range_are_refused(network, batches, option, value):
    name = option.replace("rate", "learning rate")
    with pytest.raises(ReconstructionError, match=rf"{name} is {value}\. Give a finite number"):
        reconstruct(network, recipe(**STEPS["uniform"]), batches, **{option: value})
