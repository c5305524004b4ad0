"""Record statistics of a model in a plain torch loop, to prune by them with Prune GUI.

Replace the model, the batches and the loss by your own. Then prune the model with a recipe:

    steps: [{method: l1_unstructured, targets: ["*.weight"], amount: 0.5, scope: row,
             importance: statistics/activations.safetensors}]

    prune-gui apply recipe.yaml model.pt -o pruned.pt

To correct the kept weights, record "second_moments", too, and add the step
{method: refit, targets: ["*"], moments: statistics/second_moments.safetensors}.
"""

import torch

import prune_gui

model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
batches = [(torch.randn(1, 16), torch.randint(4, (1,))) for _ in range(128)]

model.eval()
with prune_gui.record(model, "activations", "obd") as recording:
    for inputs, labels in batches:
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        model.zero_grad()

torch.save(model.state_dict(), "model.pt")
for path in recording.save("statistics", overwrite=True):
    print(path)
