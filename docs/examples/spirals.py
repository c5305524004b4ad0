"""A small network that tells two spirals apart, and what a pruned copy of it is worth.

`python spirals.py` trains it in a few seconds and saves spirals.safetensors.
`spirals.py:evaluate` is an evaluator for `prune-gui evaluate`.
"""

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import cross_entropy


def network() -> nn.Sequential:
    """Return the network, untrained."""
    return nn.Sequential(
        nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    )


def points(seed: int, count: int = 1000) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points on two spirals, and the number of the spiral of each."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    turn = 1 + 8 * torch.rand(count, generator=generator)
    angle = turn + torch.pi * labels
    noise = 0.15 * torch.randn(count, 2, generator=generator)
    return torch.stack([turn * angle.cos(), turn * angle.sin()], 1) / 5 + noise / 5, labels


def evaluate(tensors: dict[str, torch.Tensor]) -> dict[str, float]:
    """Return the accuracy and the loss on points that the network was not trained with."""
    model = network()
    model.load_state_dict(tensors)
    inputs, labels = points(seed=1)
    with torch.no_grad():
        outputs = model(inputs)
    return {
        "accuracy": (outputs.argmax(1) == labels).float().mean().item(),
        "loss": cross_entropy(outputs, labels).item(),
    }


def main() -> None:
    """Train the network and save it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # faster for a network this small
    model = network()
    inputs, labels = points(seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    save_file(model.state_dict(), "spirals.safetensors")
    print(evaluate(model.state_dict()))


if __name__ == "__main__":
    main()
