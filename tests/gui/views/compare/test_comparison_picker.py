import pytest

from prune_gui.gui.views.compare.comparison_picker import ComparisonPicker


@pytest.fixture
def chooser(bench, checkpoint, shown):
    picker = shown(ComparisonPicker(bench, lambda *_: None))
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(bench.step(amount=6), bench.step(amount=6))
    picker.offer()
    return picker


def test_the_choice_stays_while_steps_are_added(chooser, bench):
    chooser._box.setCurrentIndex(1)
    chooser._box.activated.emit(1)
    bench.add(bench.step(amount=6))
    chooser.offer()
    assert chooser.chosen.text == "The stack up to step 1: L1 unstructured"
    assert chooser.chosen.resolution().counts["fc.weight"] == (6, 48)


def test_a_comparison_is_the_same_until_the_stack_changes(chooser, bench):
    before = chooser.chosen
    assert before.same_as(chooser.chosen)
    bench.add(bench.step(amount=6))
    assert not before.same_as(chooser.chosen)


def test_nothing_is_chosen_before_a_checkpoint_is_open(bench, shown):
    picker = shown(ComparisonPicker(bench, lambda *_: None))
    picker.offer()
    assert picker.chosen is None
