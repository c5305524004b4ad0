"""A refit of a real model brings its outputs on other inputs closer to the dense ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cosine_similarity

import prune_gui

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
TEXTS = [ROOT / "resources/guide/guide.md", *sorted((ROOT / "docs/how-to").glob("*.md"))]
BATCHES, BATCH, TOKENS = 20, 16, 16


def batches_of(text: str, vocabulary: list[str]) -> list[torch.Tensor]:
    """Return batches of token ids, (batch, tokens); words that are no tokens are left out."""
    numbers = {token: number for number, token in enumerate(vocabulary)}
    words = [numbers[word] for word in text.lower().split() if word in numbers]
    ids = torch.tensor(words).unfold(0, TOKENS, TOKENS)
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))
    return list(ids[order].split(BATCH))


@pytest.mark.timeout(600)
def test_a_refit_of_minilm_brings_its_outputs_closer_to_the_dense_ones(real_models, tmp_path):
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    folder = real_models / "minilm"
    model = transformers.BertModel(transformers.BertConfig.from_pretrained(folder)).eval()
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    text = "\n".join(path.read_text(encoding="utf-8") for path in TEXTS)
    batches = batches_of(text, vocabulary)
    recorded, held_out = batches[:BATCHES], batches[BATCHES:]

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
