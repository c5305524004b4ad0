from prune_gui.audit.statistics.element import Element
from prune_gui.audit.view_data.element_text import describe, describe_pinned
from prune_gui.pruning.predicates import ElementRank
from prune_gui.recipe.explanation import Explanation


def test_an_element_is_described_with_its_score_and_margin(subject_after):
    subject = subject_after({"method": "l1_unstructured"})
    pruned = Element((2, 3), -0.25, 1, 0.25, 0.5, 1)
    assert describe(subject, pruned) == (
        "[2, 3]   -0.25   pruned by step 1   score 0.25, margin -0.25"
    )
    assert describe(subject, Element((2, 3), 0.25, 0)) == "[2, 3]   0.25   kept"
    assert describe(subject, Element((2, 3), 0.25, 0, 0.25, None, 1)).endswith(
        "kept   step 1: score 0.25, no cut"
    )


def test_a_pinned_element_is_described_for_every_step(subject_after):
    ln_structured = {"method": "ln_structured", "amount": 1, "n": 2, "dim": 0}
    subject = subject_after({"method": "l1_unstructured"}, ln_structured)
    element_ranks = {
        1: ElementRank(False, "entry", 0.75, 0.5, 1233, 5000),
        2: ElementRank(True, "channel 2", 1.5, 1.5, 0, 8),
    }
    explanation = Explanation("fc.weight", (2, 3), 0.75, 2, element_ranks)
    head, first, second = describe_pinned(subject, explanation).splitlines()
    assert head == "Pinned [2, 3]   0.75   pruned by step 2: Ln structured"
    assert first.startswith("step 1: L1 unstructured: score 0.75, 0.25 above the cut at 0.5, ")
    assert first.endswith("1,234 of 5,000 in order of score")
    assert second.startswith("step 2: Ln structured: channel 2, score 1.5, 0 below the cut at 1.5")
    assert second.endswith("1 of 8 in order of score")


def test_a_step_that_ranked_nothing_is_left_out(subject_after):
    subject = subject_after({"method": "channels", "dim": 0, "channels": [2]})
    explanation = Explanation("fc.weight", (2, 3), 0.75, 1, {1: ElementRank(True, "channel 2")})
    assert describe_pinned(subject, explanation).count("\n") == 0
