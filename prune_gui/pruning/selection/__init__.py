"""Exact selection of the k lowest scores of any set of tensors, without a sort or a copy."""
