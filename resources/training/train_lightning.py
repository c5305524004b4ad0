"""Prune a Lightning module while its Trainer fits it.

Replace the module and the loader by your own. To train a pruned checkpoint under its masks, give
its path to `KeepMasks` in place of the recipe, and no schedule. Checkpoints of the Trainer contain
the masks, and ``trainer.fit(..., ckpt_path=...)`` goes on with them.
"""

import lightning
import torch

import prune_gui
from prune_gui import training
from prune_gui.training.lightning import KeepMasks

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
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


inputs = torch.randn(512, 16)
samples = torch.utils.data.TensorDataset(inputs, inputs[:, :4].argmax(1))
loader = torch.utils.data.DataLoader(samples, batch_size=16)

recipe = prune_gui.Recipe.model_validate(
    {"steps": [{"method": "l1_unstructured", "targets": ["*.weight"], "scope": "global"}]}
)
masks = KeepMasks(recipe, schedule=training.cubic(0.0, 0.5, steps=64, every=8))
trainer = lightning.Trainer(
    max_epochs=4, callbacks=[masks], logger=False, enable_checkpointing=False
)
trainer.fit(Classifier(), loader)
for mask in masks.kept.report() if masks.kept else ():
    print(f"{mask.name}: {mask.sparsity:.1%} pruned, {mask.revived} revived")
trainer.save_checkpoint(CHECKPOINT)
