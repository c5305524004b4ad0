"""Masks hold while a model is trained."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn

from prune_gui import PruneGuiError, Recipe, training
from prune_gui.errors import RecipeError, TrainingError
from prune_gui.training import cuts

STEPS = 6


def make_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 21), nn.LayerNorm(21), nn.ReLU(), nn.Linear(21, 3))


def recipe(**step):
    fields = {
        "method": "l1_unstructured",
        "targets": ["0.weight", "3.weight", "first.weight"],
        "amount": 0.5,
        **step,
    }
    fields = {key: value for key, value in fields.items() if value is not None}
    return Recipe.model_validate({"steps": [fields]})


def matrices(network):
    return {name: p for name, p in network.named_parameters() if p.dim() > 1}


def batches(count=STEPS):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(16, 12, generator=generator) for _ in range(count)]


def train(network, optimizer, after=lambda: None, inputs=None):
    for batch in batches() if inputs is None else inputs:
        optimizer.zero_grad()
        network(batch).square().mean().backward()
        optimizer.step(*([lambda: 0.0] if isinstance(optimizer, torch.optim.LBFGS) else []))
        after()


def multiply(network, masks):
    with torch.no_grad():
        for name, mask in masks.items():
            network.get_parameter(name).mul_(mask)


def revived(kept):
    return sum(one.revived for one in kept.report())


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "SGD, foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    "Adam": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "Adam, fused": lambda p: torch.optim.Adam(p, 0.01, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
    "NAdam": lambda p: torch.optim.NAdam(p, 0.01),
    "RAdam": lambda p: torch.optim.RAdam(p, 0.01),
    "Adamax": lambda p: torch.optim.Adamax(p, 0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Rprop": lambda p: torch.optim.Rprop(p, 0.01),
    "ASGD": lambda p: torch.optim.ASGD(p, 0.01),
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_training_equals_a_loop_that_multiplies_by_the_masks(make):
    network = make_network()
    optimizer = make(network.parameters())
    reference = copy.deepcopy(network)
    kept = training.keep(network, optimizer, recipe())
    masks = {name: (p != 0).float() for name, p in matrices(network).items()}
    train(network, optimizer)

    multiply(reference, masks)
    train(reference, make(reference.parameters()), lambda: multiply(reference, masks))
    for name, parameter in reference.named_parameters():
        assert torch.equal(parameter, network.get_parameter(name)), name
    assert revived(kept) == 0
    for name, parameter in matrices(network).items():
        for value in optimizer.state[parameter].values():
            if value.shape == parameter.shape:
                assert not value[masks[name] == 0].any()


@pytest.mark.parametrize("kind", ["Adafactor", "Muon", "LBFGS"])
def test_optimizers_that_mix_elements_revive_none(kind):
    layers = [nn.Linear(12, 21, bias=False), nn.ReLU(), nn.ReLU(), nn.Linear(21, 3, bias=False)]
    network = nn.Sequential(*layers)
    optimizer = getattr(torch.optim, kind)(network.parameters(), lr=0.01)
    kept = training.keep(network, optimizer, recipe())
    before = network[0].weight.clone()
    train(network, optimizer)
    assert revived(kept) == 0
    assert kept.report()[0].sparsity == pytest.approx(0.5, abs=0.01)
    assert kind == "LBFGS" or not torch.equal(before, network[0].weight)


def test_the_model_has_no_other_tensors_and_a_copy_no_hook():
    network = make_network()
    keys = list(network.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    training.keep(network, optimizer, recipe())
    assert list(network.state_dict()) == keys
    other = copy.deepcopy(network)
    train(other, torch.optim.SGD(other.parameters(), 0.1))
    assert all(p.all() for p in matrices(other).values())


def test_after_closing_weights_are_free():
    network = make_network()
    optimizer = torch.optim.AdamW(network.parameters(), 0.1)
    with training.keep(network, optimizer, recipe()):
        train(network, optimizer)
    train(network, optimizer)
    assert all(p.all() for p in matrices(network).values())


def test_a_gradual_schedule_prunes_more_and_more_to_the_exact_share():
    network = make_network()
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    schedule = training.cubic(0.2, 0.8, steps=4, every=2)
    kept = training.keep(network, optimizer, recipe(scope="global"), schedule=schedule)
    total, counts, masks = sum(p.numel() for p in matrices(network).values()), [], []

    def look():
        counts.append(sum(one.pruned for one in kept.report()))
        masks.append({name: mask.pruned() for name, mask in kept.masks.items()})

    look()
    train(network, optimizer, look)
    shares = [0.2, 0.2, 0.725, 0.725, 0.8, 0.8, 0.8]
    assert counts == [round(share * total) for share in shares]
    for earlier, later in pairwise(masks):
        assert all(not (mask & ~later[name]).any() for name, mask in earlier.items())


@pytest.mark.parametrize(
    "step",
    [
        {"method": "random_unstructured"},
        {"method": "lamp"},
        {"method": "ln_structured", "dim": 0, "n": 2},
        {"method": "balanced"},
    ],
)
def test_any_method_with_an_amount_follows_a_schedule(step):
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    schedule = training.iterative([0.25, 0.5], every=3)
    kept = training.keep(network, optimizer, recipe(**step), schedule=schedule)
    before = sum(one.pruned for one in kept.report())
    train(network, optimizer)
    total = sum(p.numel() for p in matrices(network).values())
    after = sum(one.pruned for one in kept.report())
    assert 0.2 * total < before < 0.3 * total
    assert 0.45 * total < after < 0.55 * total
    assert revived(kept) == 0


@pytest.mark.parametrize("growth", ["gradient", "random"])
def test_replaced_elements_keep_the_sparsity(growth):
    network = make_network()
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    schedule = training.regrowing(every=2, until=100, replaced=0.4, growth=growth)
    kept = training.keep(network, optimizer, recipe(), schedule=schedule)
    before = kept.masks["0.weight"].pruned()
    train(network, optimizer, inputs=batches(2))
    after = kept.masks["0.weight"].pruned()
    grown = before & ~after
    assert grown.sum() == (~before & after).sum() == round(0.4 * 0.999 * int((~before).sum()))
    assert not network[0].weight[grown].any()
    if growth == "gradient":
        slopes = network[0].weight.grad.abs()
        assert slopes[grown].min() >= slopes[before & after].max()
    train(network, optimizer, inputs=batches(1))
    assert network[0].weight[grown & ~kept.masks["0.weight"].pruned()].any()
    assert revived(kept) == 0


@pytest.mark.parametrize("rewind", ["weights", "learning_rate", "both"])
def test_a_lottery_ticket_is_rewound(rewind):
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    schedule = training.lottery_ticket(rounds=1, steps=5, pruned=0.2, rewind_to=2, rewind=rewind)
    kept = training.keep(
        network, optimizer, recipe(scope="global"), schedule=schedule, schedulers=[scheduler]
    )
    seen = []

    def look():
        seen.append((copy.deepcopy(network.state_dict()), optimizer.param_groups[0]["lr"]))
        scheduler.step()

    train(network, optimizer, look, batches(5))
    pruned = kept.masks["0.weight"].pruned()
    expected = seen[1 if rewind != "learning_rate" else 3][0]["0.weight"].masked_fill(pruned, 0)
    is_rewound = torch.equal(network[0].weight, expected)
    assert is_rewound == (rewind != "learning_rate")
    assert seen[4][1] == (seen[4 - 1][1] / 2 if rewind == "weights" else seen[1][1])
    assert sum(one.pruned for one in kept.report()) == round(0.2 * (12 * 21 + 21 * 3))


def test_a_run_goes_on_from_what_was_saved(tmp_path):
    schedule = training.cubic(0.0, 0.7, steps=4, every=1)

    def start(**resume):
        network = make_network()
        optimizer = torch.optim.Adam(network.parameters(), 0.01)
        return (
            network,
            optimizer,
            {"source": recipe(scope="global"), "schedule": schedule, **resume},
        )

    network, optimizer, options = start()
    training.keep(network, optimizer, **options)
    train(network, optimizer)
    again, optimizer, options = start()
    kept = training.keep(again, optimizer, **options)
    train(again, optimizer, inputs=batches()[:3])
    states = copy.deepcopy((again.state_dict(), optimizer.state_dict()))
    kept.save(tmp_path)
    again, optimizer, options = start(resume=tmp_path)
    again.load_state_dict(states[0])
    optimizer.load_state_dict(states[1])
    assert training.keep(again, optimizer, **options).step == 3
    train(again, optimizer, inputs=batches()[3:])
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))


def test_masks_of_a_checkpoint_hold(tmp_path):
    from safetensors.torch import save_file

    network = make_network()
    with torch.no_grad():
        network[0].weight[3] = 0
        network[3].bias.zero_()  # no mask: it is no matrix
    path = tmp_path / "pruned.safetensors"
    save_file(network.state_dict(), path)
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for source in (path, None):
        kept = training.keep(network, optimizer, source)
        assert {name: mask.count for name, mask in kept.masks.items()} == {"0.weight": 12}
        train(network, optimizer)
        assert not network[0].weight[3].any()
        assert network[3].bias.any()
        kept.close()


@pytest.fixture
def compiling():
    """Let torch compile in no pool of threads, which would outlive the test."""
    from torch._inductor import config

    with config.patch(compile_threads=1):
        yield


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # imported to compile
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_amp_accumulation_and_averages_equal_a_loop_that_multiplies(compiled, fused, request):
    if compiled:
        request.getfixturevalue("compiling")
    schedule = training.iterative([0.3, 0.6], every=3)
    masks_after = {}

    def fit(keeps):
        network = make_network()
        average = torch.optim.swa_utils.AveragedModel(
            network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
        )
        optimizer = torch.optim.AdamW(network.parameters(), 0.01, fused=fused)
        kept = training.keep(network, optimizer, recipe(), schedule=schedule) if keeps else None
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)  # the first steps overflow
        model = network
        if compiled:
            model, optimizer.step = torch.compile(network), torch.compile(optimizer.step)
        if not keeps:
            multiply(network, masks_after[0])
        for number, batch in enumerate(batches(40)):
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(batch).square().mean()
            scaler.scale(loss * 1000).backward()
            if number % 2 == 0:
                continue
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            state = optimizer.state.get(network[0].weight)
            done = int(state["step"]) if state else 0
            if kept is None:
                multiply(network, masks_after[done])
            else:
                masks_after[done] = {name: ~mask.pruned() for name, mask in kept.masks.items()}
            average.update_parameters(network)
        if kept is None:
            multiply(average.module, masks_after[done])
        else:
            assert 6 < kept.step == done < 20
            assert revived(kept) == 0
            kept.apply(average)
        return [*network.parameters(), *average.parameters()]

    for one, other in zip(fit(keeps=True), fit(keeps=False), strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)


def test_an_average_of_models_is_masked():
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    average = torch.optim.swa_utils.AveragedModel(network)
    schedule = training.one_shot(0.5, at=3)
    kept = training.keep(network, optimizer, recipe(), schedule=schedule)
    train(network, optimizer, lambda: average.update_parameters(network))
    pruned = kept.masks["0.weight"].pruned()
    assert average.module[0].weight[pruned].any()
    kept.apply(average)
    assert not average.module[0].weight[pruned].any()


def test_tied_and_transposed_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(12, 12, bias=False)
            self.first.weight = nn.Parameter(torch.randn(12, 12).t())
            self.last = nn.Linear(12, 12, bias=False)
            self.last.weight = self.first.weight

        def forward(self, inputs):
            return self.last(self.first(inputs))

    network = Tied()
    optimizer = torch.optim.AdamW(network.parameters(), 0.01)
    kept = training.keep(network, optimizer, recipe())
    train(network, optimizer)
    assert (network.last.weight == 0).sum() == 72
    assert revived(kept) == 0


@pytest.mark.parametrize(
    ("source", "options", "error", "text"),
    [
        ({"0.wight": torch.ones(21, 12)}, {}, TrainingError, "no parameter 0.wight"),
        ({"0.weight": torch.zeros(12, 21)}, {}, TrainingError, r"\[12, 21\]"),
        ({"0.weight": torch.full((21, 12), 0.5)}, {}, TrainingError, "values besides 0 and 1"),
        (None, {"schedule": training.one_shot(0.5)}, TrainingError, "give a recipe"),
        (
            recipe(method="n_m", amount=None, n=2, m=4),
            {"schedule": training.one_shot(0.5)},
            RecipeError,
            "no amount",
        ),
        ("missing.safetensors", {}, PruneGuiError, "missing.safetensors"),
        (None, {"resume": "nowhere"}, TrainingError, "nowhere"),
        (None, {"run": __file__}, TrainingError, "cannot be written: File exists"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(source, options, error, text):
    network = make_network()
    before = copy.deepcopy(network.state_dict())
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    with pytest.raises(error, match=text):
        training.keep(network, optimizer, source, **options)
    train(network, optimizer)
    assert all(p.all() for p in matrices(network).values())
    assert before.keys() == network.state_dict().keys()


def test_protected_parameters_of_any_kind_are_kept_on_any_device(monkeypatch):
    step = {
        "method": "l1_unstructured",
        "targets": ["0.lora_magnitude_vector", "1.weight"],
        "amount": 0.5,
    }
    protecting = Recipe.model_validate({"protect": ["0.*"], "steps": [step]})
    shapes = {"0.lora_magnitude_vector": (21,), "0.weight": (21, 12), "1.weight": (4, 21)}
    parameters = {name: torch.randn(shape) for name, shape in shapes.items()}
    on_processor = cuts.prune(protecting, parameters, {})
    monkeypatch.setattr(cuts, "is_sharded", lambda parameter: True)
    elsewhere = cuts.prune(protecting, parameters, {})
    assert set(elsewhere) == set(on_processor) == {"1.weight"}
    assert torch.equal(elsewhere["1.weight"].pruned(), on_processor["1.weight"].pruned())


def test_masks_are_not_saved_where_a_file_is(tmp_path):
    network = make_network()
    (tmp_path / "file").touch()
    with (
        training.keep(network, torch.optim.SGD(network.parameters()), recipe()) as kept,
        pytest.raises(TrainingError, match=r"file cannot be written: File exists\."),
    ):
        kept.save(tmp_path / "file")


@pytest.mark.parametrize(
    ("schedule", "arguments", "text"),
    [
        (training.one_shot, {"sparsity": 50}, "sparsity must lie between 0 and 1, not 50"),
        (training.one_shot, {"sparsity": 0.5, "at": -1}, "negative: -1"),
        (training.iterative, {"sparsities": [0.2, 70], "every": 1}, "not 70"),
        (training.cubic, {"initial": 0, "final": 70, "steps": 9, "every": 3}, "final .* not 70"),
        (training.regrowing, {"every": 1, "until": 9, "replaced": 30}, "replaced .* not 29"),
        (training.lottery_ticket, {"rounds": 2, "steps": 9, "pruned": 20}, "pruned .* not 20"),
        (training.lottery_ticket, {"rounds": 2, "steps": 9, "rewind_to": 9}, "rewind_to .* not 9"),
    ],
)
def test_a_schedule_with_an_impossible_number_is_refused_before_training(schedule, arguments, text):
    with pytest.raises(ValueError, match=text):
        schedule(**arguments)
