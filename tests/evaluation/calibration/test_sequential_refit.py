"""Corrections of a model in memory, layer by layer: those of whole passes of all batches."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cosine_similarity
from torch.nn.utils import prune

import prune_gui
from prune_gui.errors import RecordingError
from prune_gui.evaluation.calibration.forward_passes import ForwardPasses
from prune_gui.evaluation.calibration.layer_inputs import second_moments
from prune_gui.recipe.correction.corrected_values import refitted

SIZE, BATCHES = 6, 3
ROOT = Path(__file__).parents[3]
TEXTS = [ROOT / "resources/guide/guide.md", *sorted((ROOT / "docs/how-to").glob("*.md"))]
RECORDED, ROWS, TOKENS = 20, 16, 16


class Block(nn.Module):
    """q, k and v with one input, o, and a residual; as a tuple, as blocks of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(SIZE, SIZE) for _ in range(4))
        self.calls = 0

    def forward(self, hidden, scale=1.0):
        self.calls += 1
        return hidden + self.o(self.q(hidden).tanh() * self.k(hidden) + self.v(hidden)) * scale, 0


class Network(nn.Module):
    """Blocks in a list, between two layers."""

    def __init__(self, block: type[nn.Module] = Block) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        self.blocks = nn.ModuleList(block() for _ in range(3))

    def forward(self, inputs):
        hidden = self.first(inputs)
        for block in self.blocks:
            hidden = block(hidden, scale=0.5)[0]
        return self.last(hidden)


class ByName(Network):
    """Gives blocks their input by name, and a list that they add to."""

    def forward(self, inputs):
        hidden = self.first(inputs)
        for block in self.blocks:
            hidden, _ = block(hidden=hidden, scale=torch.tensor(0.5))
        return self.last(hidden)


class Skipping(Network):
    """Adds the output of the first block before the last one, which is not a chain."""

    def forward(self, inputs):
        one = self.blocks[0](self.first(inputs))[0]
        two = self.blocks[1](one)[0]
        return self.last(self.blocks[2](two + one)[0])


class Counting(Network):
    """Gives each block another scale, so that blocks called with that of the first one differ."""

    def forward(self, inputs):
        hidden = self.first(inputs)
        for number, block in enumerate(self.blocks):
            hidden = block(hidden, number + 1)[0]
        return self.last(hidden)


class Changing(Block):
    """Changes its input in place."""

    def forward(self, hidden, scale=1.0):
        return super().forward(hidden.add_(1.0), scale)


class Tied(Network):
    """Uses a block twice."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks[2] = self.blocks[0]


class Sharing(Network):
    """Has one layer in all of its blocks, which are a chain."""

    def __init__(self) -> None:
        super().__init__()
        for block in self.blocks:
            block.v = self.blocks[0].v


class Expert(Block):
    """Has a layer that the first batch does not meet, with inputs that are also changed."""

    def __init__(self) -> None:
        super().__init__()
        self.expert = nn.Linear(SIZE, SIZE)

    def forward(self, hidden, scale=1.0):
        hidden = super().forward(hidden, scale)[0]
        return hidden + self.expert(hidden) if len(hidden) == 5 else hidden, 0


def sequential() -> nn.Module:
    layers = [nn.Sequential(nn.Linear(SIZE, SIZE), nn.ReLU(inplace=True)) for _ in range(3)]
    return nn.Sequential(nn.Linear(SIZE, SIZE), *layers)


NETWORKS = {
    "blocks": Network,
    "arguments by name": ByName,
    "a sum between blocks": Skipping,
    "other arguments for each block": Counting,
    "blocks that change their input": lambda: Network(Changing),
    "a block that is used twice": Tied,
    "a layer that all blocks share": Sharing,
    "experts": lambda: Network(Expert),
    "nested sequences": sequential,
}


def uneven_batches() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(rows, SIZE, generator=generator) for rows in (40, 5, 30)]


def masks_of(network: nn.Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return {
        name: torch.rand(weight.shape, generator=generator) < 0.5
        for name, weight in network.named_parameters()
        if name.endswith("weight")
    }


@torch.no_grad()
def by_whole_passes(network: nn.Module, masks: dict[str, torch.Tensor]) -> None:
    """Refit each layer in the order of the modules, which is that of the calls."""
    modules = {name: network.get_submodule(name.removesuffix(".weight")) for name in masks}
    for name in sorted(masks, key=lambda name: (name[:4] == "last", name[:5] != "first")):
        products: list[torch.Tensor] = []
        handle = modules[name].register_forward_pre_hook(
            lambda module, args, products=products: products.append(second_moments(module, *args))
        )
        for batch in uneven_batches():
            network(batch)
        handle.remove()
        weight, mask = modules[name].weight, masks[name]
        corrected, _ = refitted(weight, mask, sum(products), 0.01, transposed=False)
        weight.copy_(corrected.masked_fill(~mask, 0.0))


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS.keys())
def test_a_refit_gives_the_weights_that_whole_passes_give(make):
    network = make().eval()
    expected, masks = copy.deepcopy(network), masks_of(network)
    by_whole_passes(expected, masks)
    prune_gui.refit(network, masks, uneven_batches())
    for name, weight in network.named_parameters():
        torch.testing.assert_close(weight, expected.get_parameter(name))


def test_blocks_before_that_of_the_layer_are_not_run_again():
    network = Network().eval()
    prune_gui.refit(network, masks_of(network), uneven_batches())
    first_run, check, whole = BATCHES, 1, BATCHES
    to_o = to_qkv = BATCHES  # begun, and ended before their last layer
    for number, block in enumerate(network.blocks):
        is_last = number == 2
        # `last` is outside of the blocks, so that its passes run all of them
        assert block.calls == first_run + check + to_qkv + to_o + whole + (0 if is_last else whole)


def test_layers_with_the_same_inputs_are_solved_for_one_matrix():
    network = Network().eval()
    layers = {
        module.weight: [module] for module in network.modules() if isinstance(module, nn.Linear)
    }
    passes = ForwardPasses(network, uneven_batches(), lambda model, batch: model(batch), layers)
    shared = {
        name
        for name, weight in network.named_parameters()
        if weight in passes.layers and passes.layers[weight].shares_inputs
    }
    assert shared == {f"blocks.{block}.{name}.weight" for block in range(3) for name in "kv"}


def test_a_layer_without_inputs_is_pruned_and_noted():
    network = nn.Sequential(nn.Linear(SIZE, SIZE))
    notes = prune_gui.refit(network, masks_of(network), [torch.zeros(0, SIZE)])
    assert notes == {"0.weight": "not corrected: it had no inputs"}
    assert (network[0].weight[~masks_of(network)["0.weight"]] == 0).all()


@pytest.fixture
def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


@pytest.fixture
def batches() -> list[torch.Tensor]:
    return list(torch.randn(120, 8, generator=torch.Generator().manual_seed(1)).split(40))


def test_each_layer_is_solved_for_the_inputs_of_the_corrected_layers(network, batches):
    masks = masks_of(network)
    dense = {name: network.get_parameter(name).detach().clone() for name in masks}
    notes = prune_gui.refit(network, masks, batches)
    assert notes == {"0.weight": "", "2.weight": ""}
    inputs = torch.cat(batches)
    for name, layer in (("0.weight", network[:1]), ("2.weight", network[2:])):
        mask = masks[name]
        expected, _ = refitted(dense[name], mask, inputs.T @ inputs, 0.01, transposed=False)
        weight = network.get_parameter(name)
        torch.testing.assert_close(weight[mask], expected[mask])
        assert (weight[~mask] == 0).all()
        inputs = layer(inputs).relu().detach()


def test_modules_that_torch_pruned_stay_pruned(network, batches):
    dense = network(torch.cat(batches)).detach()
    for layer in (network[0], network[2]):
        prune.l1_unstructured(layer, "weight", 0.5)
    before = network(torch.cat(batches)).detach()
    mask = network[0].weight_mask.clone()
    prune_gui.refit(network, None, batches)
    after = network(torch.cat(batches)).detach()
    assert torch.equal(network[0].weight_mask, mask)
    assert ((network[0].weight == 0) == (mask == 0)).all()
    assert (after - dense).square().sum() < 0.7 * (before - dense).square().sum()


def test_a_mask_that_does_not_fit_is_named(network, batches):
    with pytest.raises(RecordingError, match=r"mask of 0\.weight has shape"):
        prune_gui.refit(network, {"0.weight": torch.ones(2, 2)}, batches)
    with pytest.raises(RecordingError, match="No layer with a mask ran"):
        prune_gui.refit(network, {}, batches)


def test_inputs_that_are_not_finite_are_an_error_that_names_the_layer(network, batches):
    with pytest.raises(RecordingError, match=r"inputs of 0\.weight are not finite"):
        prune_gui.refit(network, masks_of(network), [batches[0] / 0])


def token_batches(text: str, vocabulary: list[str]) -> list[torch.Tensor]:
    """Return batches of token ids, (batch, tokens); words that are no tokens are left out."""
    numbers = {token: number for number, token in enumerate(vocabulary)}
    words = [numbers[word] for word in text.lower().split() if word in numbers]
    ids = torch.tensor(words).unfold(0, TOKENS, TOKENS)
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))
    return list(ids[order].split(ROWS))


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_refit_of_minilm_brings_its_outputs_closer_to_the_dense_ones(real_models, tmp_path):
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    folder = real_models / "minilm"
    model = transformers.BertModel(transformers.BertConfig.from_pretrained(folder)).eval()
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    text = "\n".join(path.read_text(encoding="utf-8") for path in TEXTS)
    batches = token_batches(text, vocabulary)
    recorded, held_out = batches[:RECORDED], batches[RECORDED:]

    def outputs() -> torch.Tensor:
        return torch.cat([model(ids).last_hidden_state for ids in held_out])

    targets = ["encoder.layer.[01].*.weight", "!*LayerNorm*"]
    prune = {"method": "balanced", "targets": targets, "amount": 0.7}
    refit = {"method": "refit", "targets": targets, "moments": "second_moments.safetensors"}
    with torch.no_grad():
        dense = outputs()
        with prune_gui.record(model, "second_moments") as recording:
            for ids in recorded:
                model(ids)
        recording.save(tmp_path)
        similarities = []
        for steps in ([prune], [prune, refit]):
            recipe = prune_gui.Recipe.validated({"steps": steps}, "recipe", tmp_path)
            out = tmp_path / "out.safetensors"
            with prune_gui.open_checkpoint(folder / "model.safetensors") as checkpoint:
                prune_gui.export(prune_gui.resolve(recipe, checkpoint), out, overwrite=True)
            model.load_state_dict(load_file(out), strict=False)
            similarities.append(float(cosine_similarity(outputs(), dense, dim=-1).mean()))
    before, after = similarities
    assert after > before + 0.01
