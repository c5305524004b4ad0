"""Record statistics of a causal language model of Hugging Face, to prune by them with Prune GUI.

Usage: ``python record_huggingface.py MODEL TEXT OUT``: the folder or name of a model, a file with
one calibration text per line, and the folder for the statistics. Then prune with a recipe:

    steps: [{method: l1_unstructured, targets: ["model.layers.*_proj.weight"], amount: 0.5,
             scope: row, importance: OUT/activations.safetensors}]

    prune-gui apply recipe.yaml MODEL -o pruned.safetensors

To correct the kept weights, record "second_moments", too, and add the step
{method: refit, targets: ["*"], moments: OUT/second_moments.safetensors}.

"activations" and "second_moments" need no gradients: leave out "taylor", labels and backward(), and
run the loop under torch.no_grad().
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import prune_gui

MAX_TOKENS = 2048

name, text_file, out = sys.argv[1:]
device = "cuda" if torch.cuda.is_available() else "cpu"
tokenizer = AutoTokenizer.from_pretrained(name)
model = AutoModelForCausalLM.from_pretrained(name, dtype="auto").to(device).eval()

with prune_gui.record(model, "activations", "taylor") as recording:
    for text in Path(text_file).read_text(encoding="utf-8").splitlines():
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=MAX_TOKENS)
        ids = tokens["input_ids"].to(device)
        if ids.shape[1] > 1:  # one text at a time, so that there are no padding tokens
            model(input_ids=ids, labels=ids).loss.backward()
            model.zero_grad()

for path in recording.save(out, overwrite=True):
    print(path)
