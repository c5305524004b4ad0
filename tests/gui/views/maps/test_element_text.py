from prune_gui.gui.views.maps.text import (
    NO_NUMBER,
    PENDING,
    StepRow,
    describe,
    describe_ranks,
)
from prune_gui.pruning.predicates import ElementRank
from prune_gui.recipe.outcome import Explanation
from prune_gui.statistics.element_values import Element, StepScore

L1 = {"method": "l1_unstructured"}
LN = {"method": "ln_structured", "amount": 1, "n": 2, "dim": 0}


def test_an_element_is_described_with_its_scores_before_its_ranks_are_known(subject_after):
    subject = subject_after(L1)
    text = describe(subject, Element((2, 3), -0.25, 1, (StepScore(1, 0.25, 0.5),)))
    assert (text.index, text.value, text.state) == ("[2, 3]", "-0.25", "pruned by step 1")
    assert text.rows == (StepRow("step 1: L1 unstructured", "0.25", "0.5", PENDING),)


def test_an_element_is_described_with_its_rank_in_every_step(subject_after):
    subject = subject_after(L1, LN)
    element_ranks = {
        1: ElementRank(False, "entry", 0.75, 0.5, 1233, 5000),
        2: ElementRank(True, "channel 2", 1.5, 1.5, 0, 8),
    }
    text = describe_ranks(subject, Explanation("fc.weight", (2, 3), 0.75, 2, element_ranks))
    assert (text.index, text.value, text.state) == ("[2, 3]", "0.75", "pruned by step 2")
    assert text.rows == (
        StepRow("step 1: L1 unstructured", "0.75", "0.5", "1,234 of 5,000"),
        StepRow("step 2: Ln structured, channel 2", "1.5", "1.5", "1 of 8"),
    )


def test_an_element_is_described_with_the_factors_of_its_row_and_column(subject_after):
    subject = subject_after({**L1, "score": "balanced"})
    rank = ElementRank(False, "entry", 1.5, 0.5, 0, 8, factors=(4.0, 0.5))
    text = describe_ranks(subject, Explanation("fc.weight", (2, 3), 0.75, 0, {1: rank}))
    [row] = text.rows
    assert row.step.endswith(", row factor 4, column factor 0.5")
    assert (row.score, row.cut, row.rank) == ("1.5", "0.5", "1 of 8")


def test_a_step_that_did_not_rank_the_element_has_no_numbers(subject_after):
    subject = subject_after({"method": "channels", "dim": 0, "channels": [2]}, L1)
    explanation = Explanation("fc.weight", (2, 3), 0.75, 1, {1: ElementRank(True, "channel 2")})
    for text in (
        describe_ranks(subject, explanation),
        describe(subject, Element((2, 3), 0.75, 1, (StepScore(1),))),
    ):
        assert [row.step.split(":")[0] for row in text.rows] == ["step 1", "step 2"]
        assert {(row.score, row.cut, row.rank) for row in text.rows} == {(NO_NUMBER,) * 3}
