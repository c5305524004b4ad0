"""Record statistics of a Lightning module with its own Trainer, to prune by them with Prune GUI.

Replace the module, the loader and the path by your own. The names of the parameters are those in
the checkpoints of Lightning. Then prune the checkpoint with a recipe:

    steps: [{method: l1_unstructured, targets: ["*.weight"], amount: 0.5, scope: global,
             importance: statistics/obd.safetensors}]

    prune-gui apply recipe.yaml model.ckpt -o pruned.ckpt

To correct the kept weights, record "second_moments", too, and add the step
{method: refit, targets: ["*"], moments: statistics/second_moments.safetensors}.
"""

from collections.abc import Callable

import lightning
import torch

import prune_gui

CHECKPOINT = "model.ckpt"


class Classifier(lightning.LightningModule):
    """A module such as yours."""

    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Linear(16, 4)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """Return the loss of a batch."""
        inputs, labels = batch
        return torch.nn.functional.cross_entropy(self.model(inputs), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters())


class Calibrated(Classifier):
    """The same module, whose weights stay as they are while `Trainer.fit` runs it."""

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: torch.optim.Optimizer,
        optimizer_closure: Callable[[], object],
    ) -> None:
        """Run the forward and the backward pass, and no step."""
        optimizer_closure()


samples = torch.utils.data.TensorDataset(torch.randn(128, 16), torch.randint(4, (128,)))
loader = torch.utils.data.DataLoader(samples, batch_size=1)

module = Calibrated()  # or Calibrated.load_from_checkpoint(CHECKPOINT)
module.eval()  # without dropout
trainer = lightning.Trainer(
    max_epochs=1, limit_train_batches=128, logger=False, enable_checkpointing=False
)
with prune_gui.record(module, "activations", "obd") as recording:
    trainer.fit(module, loader)

trainer.save_checkpoint(CHECKPOINT)
for path in recording.save("statistics", overwrite=True):
    print(path)
