"""Fine-tune a pruned language model of Hugging Face under its masks.

Usage: ``python train_huggingface.py MODEL TEXT OUT``: the folder of a pruned model, a file with one
text per line, and the folder for the result. The weights that are 0 in MODEL are 0 in OUT.

To prune while it is trained, give a recipe and a schedule to `KeepMasks` instead:

    KeepMasks(prune_gui.Recipe.load("recipe.yaml"),
              schedule=prune_gui.training.cubic(0.0, 0.7, steps=2000, every=100))

LoRA: train the adapters without `KeepMasks`; after `merge_and_unload`, the zeros come back with
``kept = prune_gui.training.keep(model, optimizer)`` before, and ``kept.apply(merged)`` after it.
"""

import sys
from pathlib import Path

from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

from prune_gui.training.huggingface import KeepMasks

name, text_file, out = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(name)
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained(name)

texts = Path(text_file).read_text(encoding="utf-8").splitlines()
samples = [tokenizer(text, truncation=True, max_length=512) for text in texts if text.strip()]
masks = KeepMasks()
trainer = Trainer(
    model,
    TrainingArguments(out, num_train_epochs=1, learning_rate=2e-5, report_to=[]),
    train_dataset=samples,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    callbacks=[masks],
)
trainer.train()
for mask in masks.kept.report():
    print(f"{mask.name}: {mask.sparsity:.1%} pruned, {mask.revived} revived")
trainer.save_model(out)
