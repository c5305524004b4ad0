"""Networks of torchvision as examples."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def vision():
    """torchvision.models."""
    from torchvision import models

    return models
