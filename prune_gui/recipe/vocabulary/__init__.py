"""The tokenizer of a checkpoint: which tokens can be removed, and its files without them."""
