"""Prune a model while it is trained, in a plain torch loop, and save it.

Replace the model, the batches and the loss by your own. The recipe can be a file of Prune GUI,
``prune_gui.Recipe.load("recipe.yaml")``; to train a pruned checkpoint under its masks, give its
path in place of the recipe, and no schedule. The pruned weights are exact zeros in "model.pt",
which `prune-gui model.pt` shows.

With Accelerate, pass what `accelerator.prepare` returns to `keep`, and call
``accelerator.register_for_checkpointing(kept)``. With fully_shard, call it before `keep`.
"""

import torch

import prune_gui
from prune_gui import training

STEPS = 400

model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
recipe = prune_gui.Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "targets": ["*.weight"], "scope": "global"}]}
)
schedule = training.cubic(0.0, 0.9, steps=STEPS // 2, every=10)
kept = training.keep(model, optimizer, recipe, schedule=schedule)

for _ in range(STEPS):
    inputs = torch.randn(32, 16)
    labels = inputs[:, :4].argmax(1)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()

for mask in kept.report():
    print(f"{mask.name}: {mask.sparsity:.1%} pruned, {mask.revived} revived")
kept.save("run")
torch.save(model.state_dict(), "model.pt")
