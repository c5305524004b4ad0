import torch

from prune_gui.audit.report import report


def test_a_report_lists_the_prunable_parameters_and_their_sum(resolved):
    resolution = resolved(
        {"method": "l1_unstructured", "amount": 3, "targets": ["*.weight"]},
        fc__weight=torch.randn(2, 5),
        fc__bias=torch.zeros(2),
        steps=torch.tensor(7),
    )
    found = report(resolution)
    assert [(row.name, row.shape, row.dtype, row.pruned, row.total) for row in found.rows] == [
        ("fc.weight", (2, 5), "float32", 3, 10),
        ("fc.bias", (2,), "float32", 0, 2),
    ]
    assert (found.total.pruned, found.total.total) == (3, 12)
    assert found.rows[0].sparsity == 0.3
    assert found.total.sparsity == 0.25


def test_a_report_on_nothing_is_no_error(resolved):
    found = report(resolved(steps=torch.tensor(7)))
    assert found.rows == ()
    assert found.total.sparsity == 0.0
