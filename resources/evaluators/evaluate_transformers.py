"""The perplexity of a pruned language model of transformers: an evaluator for Prune GUI.

It runs as it is on a folder with config.json and a tokenizer. The window and `prune-gui evaluate`
call the function `evaluate` with the path of a pruned checkpoint; the files of the model are beside
it. If transformers is in another environment, choose its Python in *Options*.
"""

import math
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

# FILL IN: your own texts, which the model was not trained with; some thousand words at least.
TEXTS = [
    "The harbour was quiet when the first boats came in, and the gulls followed them to the quay.",
    "A function that returns early is easier to read than one with four levels of conditions.",
    "Water boils at a lower temperature on a mountain, because the pressure of the air is lower.",
]


@torch.no_grad()
def evaluate(checkpoint):
    """Return the perplexity. FILL IN another measure if yours is no causal language model."""
    path = Path(checkpoint)
    folder = path if path.is_dir() else path.parent
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(
            "this checkpoint has no config.json, so transformers cannot load it"
        )
    model, loading = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    if loading["missing_keys"]:  # transformers fills them with random weights
        missing = ", ".join(sorted(loading["missing_keys"])[:3])
        raise ValueError(
            f"FILL IN another measure: this is no causal language model, it has no {missing}"
        )
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    loss = count = 0
    for text in TEXTS:
        tokens = tokenizer(text, return_tensors="pt").input_ids
        loss += float(model(tokens, labels=tokens).loss) * (tokens.shape[1] - 1)
        count += tokens.shape[1] - 1
    return {"perplexity": math.exp(loss / count)}
