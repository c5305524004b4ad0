import torch
from safetensors.torch import save_file

from prune_gui.checkpoint import open_checkpoint
from prune_gui.monitor import Monitor
from prune_gui.recipe import Recipe, resolve
from prune_gui.statistics import score_histogram
from prune_gui.statistics.element_scores import weights_of
from prune_gui.statistics.score_histogram import ScoreHistogramCache


def test_histograms_over_the_size_limit_are_evicted(tmp_path, monkeypatch):
    weights = torch.linspace(-1, 1, 1200).view(40, 30)
    save_file({name: weights.clone() for name in "abc"}, tmp_path / "m.safetensors")
    with open_checkpoint(tmp_path / "m.safetensors") as checkpoint:
        resolution = resolve(Recipe(), checkpoint)
        scored = {name: weights_of(resolution, name) for name in "abc"}
        first = ScoreHistogramCache(checkpoint).found("a", scored["a"], Monitor())
        monkeypatch.setattr(score_histogram, "MAX_CACHE_BYTES", first.nbytes * 3 // 2)
        cache = ScoreHistogramCache(checkpoint)
        first = cache.found("a", scored["a"], Monitor())
        assert cache.found("a", scored["a"], Monitor()) is first
        cache.found("b", scored["b"], Monitor())
        again = cache.found("a", scored["a"], Monitor())
        assert again is not first
        assert again.counts.tolist() == first.counts.tolist()


def test_a_histogram_larger_than_the_cache_is_returned_uncached(tmp_path, monkeypatch):
    save_file({"a": torch.randn(40, 30)}, tmp_path / "m.safetensors")
    monkeypatch.setattr(score_histogram, "MAX_CACHE_BYTES", 1)
    with open_checkpoint(tmp_path / "m.safetensors") as checkpoint:
        scored = weights_of(resolve(Recipe(), checkpoint), "a")
        cache = ScoreHistogramCache(checkpoint)
        assert cache.found("a", scored, Monitor()).remaining == 1200
        assert cache.found("a", scored, Monitor()).remaining == 1200
