import torch

from prune_gui.audit.pruned_counts import pruned_counts


def test_pruned_counts_list_the_prunable_parameters_and_their_sum(resolved):
    resolution = resolved(
        {"method": "l1_unstructured", "amount": 3, "targets": ["*.weight"]},
        fc__weight=torch.randn(2, 5),
        fc__bias=torch.zeros(2),
        steps=torch.tensor(7),
    )
    found = pruned_counts(resolution)
    assert [(row.name, row.shape, row.dtype, row.pruned, row.total) for row in found.rows] == [
        ("fc.weight", (2, 5), "float32", 3, 10),
        ("fc.bias", (2,), "float32", 0, 2),
    ]
    assert (found.total.pruned, found.total.total) == (3, 12)
    assert found.rows[0].sparsity == 0.3
    assert found.total.sparsity == 0.25


def test_pruned_counts_of_nothing_are_no_error(resolved):
    found = pruned_counts(resolved(steps=torch.tensor(7)))
    assert found.rows == ()
    assert found.total.sparsity == 0.0
