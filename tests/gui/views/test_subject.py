from prune_gui.gui.views import legend as legend_module
from prune_gui.gui.views.legend import legend
from prune_gui.gui.views.subject import subject_of
from prune_gui.gui.widgets.theme import LIGHT
from prune_gui.recipe.pruned_by_codes import IN_FILE, KEPT


def test_without_a_checkpoint_the_message_says_what_to_do(bench):
    assert subject_of(bench).startswith("Nothing is open")


def test_without_a_chosen_parameter_the_message_says_what_to_do(bench, checkpoint):
    bench.open(checkpoint)
    bench.until_idle()
    assert subject_of(bench).startswith("Choose a parameter")


def test_the_message_says_why_a_tensor_cannot_be_pruned(bench, checkpoint):
    bench.open_and_choose(checkpoint, "steps")
    assert subject_of(bench) == "steps cannot be pruned: integer."


def test_counts_separate_steps_and_draft(bench, checkpoint):
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(bench.step(amount=12), bench.step("ln_structured", amount=1, targets=["conv.weight"]))
    bench.draft_step(bench.step(amount=6, targets=["fc.weight"]))
    subject = bench.found()
    assert subject.counts() == {KEPT: 30, 1: 12, 3: 6}
    assert subject.title(1) == "step 1: L1 unstructured"
    assert subject.title(3) == "the draft: L1 unstructured"


def test_zeros_in_the_file_are_counted_separately(bench, checkpoint):
    bench.open_and_choose(checkpoint, "fc.bias")
    zeros = bench.session.recipe.model_copy(update={"start": "zeros"})
    bench.use_recipe(zeros, checkpoint)
    bench.until_idle()
    assert bench.found().counts() == {KEPT: 7, IN_FILE: 1}
    assert bench.found().title(IN_FILE) == "pruned in the file"


def test_the_legend_shows_each_colour_with_its_share(bench, checkpoint):
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(bench.step(amount=12))
    text = legend(bench.found(), LIGHT).replace("&nbsp;", " ")
    assert f"{LIGHT.kept}" in text
    assert f"{LIGHT.steps[0]}" in text
    assert "kept 36 (75.0 %)" in text
    assert "step 1: L1 unstructured 12 (25.0 %)" in text


def test_a_plain_legend_shows_kept_pruned_and_marks(bench, checkpoint):
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(*[bench.step(amount=12)] * 2)
    text = legend(bench.found(), LIGHT, plain=True, marks=2).replace("&nbsp;", " ")
    assert "kept 24 (50.0 %)" in text
    assert "pruned 24 (50.0 %)" in text
    assert "step" not in text
    assert "○ 2 lone cells" in text


def test_the_legend_of_many_steps_stays_short(bench, checkpoint, monkeypatch):
    monkeypatch.setattr(legend_module, "MAX_NAMED_COLOURS", 2)
    bench.open_and_choose(checkpoint, "fc.weight")
    bench.add(*[bench.step(amount=1)] * 4)
    text = legend(bench.found(), LIGHT).replace("&nbsp;", " ")
    assert "3 more 3 (6.2 %)" in text
    assert "step 2" not in text
