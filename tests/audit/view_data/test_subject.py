from prune_gui.recipe.recipe import IN_FILE, KEPT


def l1(amount):
    return {"method": "l1_unstructured", "amount": amount}


def test_counts_separate_steps_and_draft(subject_after):
    ln = {"method": "ln_structured", "amount": 1, "targets": ["fc.bias"], "enabled": False}
    subject = subject_after(l1(12), ln, l1(6), draft=3)
    assert subject.counts() == {KEPT: 30, 1: 12, 3: 6}
    assert subject.title(1) == "step 1: L1 unstructured"
    assert subject.title(3) == "the draft: L1 unstructured"


def test_zeros_in_the_file_are_counted_separately(subject_after):
    subject = subject_after(name="fc.bias", start="zeros")
    assert subject.counts() == {KEPT: 7, IN_FILE: 1}
    assert subject.title(IN_FILE) == "pruned in the file"
