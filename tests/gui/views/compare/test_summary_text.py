import torch

from prune_gui.comparison.summary import summarize
from prune_gui.gui.views.compare.text import points, share_text, summary_rows, worst_names
from prune_gui.monitor import Monitor

HALF = {"method": "l1_unstructured", "amount": 0.5}


def _texts(summary):
    return {row.title: [cell.text for cell in row.cells] for row in summary_rows(summary)}


def _summary(left, right, name="w", wanted=True):
    return summarize(name, left, right, right, None, lambda _: wanted, Monitor())


def test_there_is_a_column_for_the_parameter_and_one_for_all(resolved):
    tensors = {"w": torch.tensor([[1.0, 2.0, 3.0, 4.0]]), "v": torch.ones(1, 4)}
    step = {**HALF, "targets": ["w"]}
    texts = _texts(_summary(resolved(**tensors), resolved(step, **tensors)))
    assert texts["Sparsity"] == ["0.0 %", "0.0 %", "50.0 %", "25.0 %", "+50.0 pp", "+25.0 pp"]
    assert texts["Pruned"] == ["0", "0", "2", "2", "+2", "+2"]
    minus = "\N{MINUS SIGN}"
    energies = ["100 %", "100 %", "83.33 %", "85.29 %", f"{minus}16.67 pp", f"{minus}14.71 pp"]
    assert texts["Kept energy"] == energies
    dash = "\N{EN DASH}"
    assert texts["Worst layer"] == ["", dash, "", "83.33 %", "", dash]


def test_the_worst_layers_are_named(resolved):
    tensors = {"w": torch.tensor([[1.0, 2.0, 3.0, 4.0]])}
    summary = _summary(resolved(**tensors), resolved(HALF, **tensors))
    assert worst_names(summary) == ("", "Worst on the right: w")
    assert worst_names(None) == ("", "")


def test_unknown_numbers_are_an_ellipsis(resolved):
    left = resolved(HALF, w=torch.arange(8.0).reshape(2, 4))
    texts = _texts(_summary(left, left, wanted=False))
    assert texts["Kept energy"] == ["…"] * 6
    assert texts["Sparsity"][0] == "50.0 %"
    assert set(_texts(None)["Sparsity"]) == {"…"}


def test_a_parameter_that_one_side_lacks_has_dashes(resolved):
    left, right = resolved(v=torch.ones(4)), resolved(w=torch.ones(4))
    assert _texts(_summary(left, right))["Sparsity"][::2] == ["\N{EN DASH}"] * 3


def test_large_numbers_are_short_with_the_exact_number_in_the_tip(resolved):
    left, right = (resolved(*steps, w=torch.ones(100, 100)) for steps in ((), (HALF,)))
    row = next(r for r in summary_rows(_summary(left, right)) if r.title == "Pruned")
    assert [(row.cells[i].text, row.cells[i].tip) for i in (2, 4)] == [
        ("5.0 k", "5,000 of 10,000"),
        ("+5.0 k", "+5,000"),
    ]


def test_shares_and_their_differences_have_a_sign_and_a_unit():
    assert [points(change, 1) for change in (0.5, 0.0, -0.0001, -0.125)] == [
        "+50.0 pp",
        "0.0 pp",
        "0.0 pp",
        "\N{MINUS SIGN}12.5 pp",
    ]
    assert [share_text(share) for share in (1.0, 0.5)] == ["100 %", "50.00 %"]
    assert share_text(float("nan")) == points(float("nan"), 1) == "\N{EN DASH}"
