"""Synthetic sounds: tones of musical timbres, and voiced syllables. Deterministic."""

from __future__ import annotations

import math

import torch

RATE = 16_000
"""Samples per second."""
VOWELS = (
    (730, 1090, 2440),
    (270, 2290, 3010),
    (300, 870, 2240),
    (530, 1840, 2480),
    (570, 840, 2410),
)
"""Formants in Hz (Peterson and Barney, 1952, men)."""


def tones(count: int, samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy tones, of mean 0 and deviation 1, and their pitches.

    The timbres are a sine, harmonics that fall with 1/n, odd harmonics only, and a formant at
    700 Hz. The pitches are uniform on the logarithmic scale.

    Returns:
        float32 of shape (count, samples), and pitches in Hz of shape (count,), 70 to 1000 Hz.
    """
    random = torch.Generator().manual_seed(seed)
    times = torch.arange(samples) / RATE
    pitches = 70 * (1000 / 70) ** torch.rand(count, generator=random)
    phases = 2 * math.pi * torch.rand(count, generator=random)
    noise = 0.1 * torch.randn(count, samples, generator=random)
    sounds = torch.empty(count, samples)
    for index, (pitch, phase) in enumerate(zip(pitches, phases, strict=True)):
        n = torch.arange(1, max(2, int(6000 / pitch)) + 1)
        timbres = (
            (n == 1).float(),
            1 / n,
            (n % 2) / n,
            torch.exp(-(((n * pitch - 700) / 400) ** 2)) + 0.05,
        )
        waves = torch.sin(2 * math.pi * pitch * n[:, None] * times + phase)
        sounds[index] = timbres[index % len(timbres)] @ waves
    sounds = sounds / sounds.std(dim=1, keepdim=True) + noise
    sounds -= sounds.mean(dim=1, keepdim=True)
    return sounds / sounds.std(dim=1, keepdim=True), pitches


def speech(seconds: float, seed: int) -> torch.Tensor:
    """Return vowels with gaps between them, with a falling pitch, in faint noise.

    Args:
        seconds: the length.
        seed: chooses the speaker, the vowels and the gaps.

    Returns:
        float32 of shape (samples,), with a peak of about 0.5.
    """
    random = torch.Generator().manual_seed(seed)
    pitch = 90 + 130 * torch.rand((), generator=random)
    size = 0.9 + 0.3 * torch.rand((), generator=random)
    pieces, length = [], int(seconds * RATE)
    while sum(map(len, pieces)) < length:
        draws = torch.rand(4, generator=random)
        times = torch.arange(int(RATE * (0.08 + 0.2 * draws[0]))) / RATE
        phase = 2 * math.pi * pitch * (1 - 0.3 * draws[1] * times) * times
        n = torch.arange(1, int(5000 / pitch))[:, None]
        formants = torch.tensor(VOWELS[int(draws[2] * len(VOWELS))]) * size
        amplitudes = (1 / (1 + ((n * pitch - formants) / 90) ** 2)).sum(dim=1) / n[:, 0] ** 0.5
        envelope = torch.sin(math.pi * torch.linspace(0, 1, len(times))).clamp(min=0) ** 0.5
        pieces.append(envelope * (amplitudes @ torch.sin(n * phase)))
        pieces.append(torch.zeros(int(RATE * 0.5 * draws[3] ** 2)))
    sound = torch.cat(pieces)[:length]
    return 0.5 * sound / sound.abs().max() + 0.003 * torch.randn(length, generator=random)


def mel_frames(sound: torch.Tensor, window: int, step: int, mels: int) -> torch.Tensor:
    """Return a mel spectrogram of powers, float32 of shape (frames, mels).

    The filters are triangles of equal area on the mel scale of Slaney's Auditory Toolbox, 1998.

    Args:
        sound: of shape (samples,).
        window: length of a frame, in samples.
        step: distance of two frames, in samples.
        mels: number of filters.
    """
    spectrum = (
        torch.stft(sound, window, step, window=torch.hann_window(window), return_complex=True).abs()
        ** 2
    )
    top = 15 + math.log(RATE / 2 / 1000) / math.log(6.4) * 27
    scale = torch.linspace(0, top, mels + 2)
    edges = torch.where(scale < 15, scale * 200 / 3, 1000 * 6.4 ** ((scale - 15) / 27))
    hertz = torch.linspace(0, RATE / 2, len(spectrum))
    low, middle, high = (edges[i : mels + i, None] for i in range(3))
    triangles = torch.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle))
    filters = triangles.clamp(min=0) * 2 / (high - low)
    return (filters @ spectrum).T
