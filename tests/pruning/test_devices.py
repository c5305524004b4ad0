"""The devices that are computed on."""

from __future__ import annotations

import pytest
import torch

import prune_gui
from prune_gui.errors import DeviceError
from prune_gui.pruning.devices import (
    chosen_device,
    find_device,
    residual_dtype,
    rounds_products,
    tensor_core_products,
    use_device,
)


@pytest.fixture
def cards(monkeypatch):
    """Two graphics cards, as torch reports them."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))


@pytest.mark.parametrize("name", ["automatic", "gpu", "cuda", "cuda:0", "cuda:1"])
def test_a_graphics_card_is_found(cards, name):
    assert find_device(name).type == "cuda"


@pytest.mark.parametrize("name", ["cuda:2", "mps", "nonsense", ""])
def test_a_card_that_is_not_there_is_named_with_those_that_are(cards, name):
    with pytest.raises(DeviceError, match="Choose automatic, or one of: cpu, cuda:0, cuda:1"):
        find_device(name)


@pytest.mark.parametrize("name", ["gpu", "cuda"])
def test_without_a_card_the_processor_is_chosen_and_a_card_is_refused(monkeypatch, name):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert find_device("automatic") == find_device("cpu") == torch.device("cpu")
    with pytest.raises(DeviceError, match=f"There is no device {name}"):
        prune_gui.refit(torch.nn.Linear(2, 2), {}, [], device=name)
    with (
        pytest.raises(DeviceError),
        prune_gui.record(torch.nn.Linear(2, 2), "means", device=name),
    ):
        pass


def test_the_choice_holds_until_the_next_one(cards):
    use_device("cuda:1")
    try:
        assert chosen_device() == torch.device("cuda:1")
    finally:
        use_device("automatic")
    assert chosen_device() == torch.device("cuda")


@pytest.mark.parametrize(
    ("capability", "dtype"), [((9, 0), torch.float64), ((8, 9), torch.float32)]
)
def test_float64_is_used_where_it_is_fast(monkeypatch, capability, dtype):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.version, "hip", None)
    assert residual_dtype(torch.device("cuda")) == dtype
    assert residual_dtype(torch.device("mps")) == torch.float32


@pytest.mark.parametrize(("capability", "rounds"), [((7, 5), False), ((9, 0), True)])
def test_products_are_rounded_where_there_are_tensor_cores_for_it(monkeypatch, capability, rounds):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.version, "hip", None)
    assert rounds_products(torch.device("cuda")) is rounds
    assert not rounds_products(torch.device("cpu"))


def test_the_precision_of_products_is_as_before_after_an_error():
    matmul = torch.backends.cuda.matmul

    def fail():
        with tensor_core_products():
            assert matmul.allow_tf32
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not matmul.allow_tf32


def test_a_caller_may_have_set_the_precision_by_its_new_name():
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        pytest.skip("torch is older than 2.9")
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        with pytest.raises(RuntimeError):  # torch refuses its older name now
            _ = matmul.allow_tf32
        with tensor_core_products():
            assert matmul.fp32_precision == "tf32"
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before
