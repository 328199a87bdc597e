"""The mechanism on data whose truth is known: only margins, only the disturbance, or both change."""

import numpy as np
import pytest

from stats.mechanism import MARGIN_BINS, Positions, decompose, flip_rate_by_margin, predicted_rate, sentence

EPISODES, TOKENS = 60, 400
NAMES = tuple(f"episode-{i}" for i in range(EPISODES))


def made(margin_scale: float, disturbance: float, seed: int, spread: float = 0.2) -> Positions:
    """Margins from a gamma, gap changes from a Laplace; episodes differ in both by ``spread``."""
    random = np.random.default_rng(seed)
    own = np.exp(random.normal(0, spread, EPISODES)).repeat(TOKENS)
    margins = random.gamma(1.0, margin_scale, EPISODES * TOKENS)
    changes = random.laplace(0, disturbance, EPISODES * TOKENS) * own
    n = len(margins)
    return Positions(
        margins=margins,
        gap_changes=changes,
        drift=np.abs(changes),
        flipped=changes < -margins,
        tool_call=np.arange(n) % 3 == 0,
        token=np.arange(n) % TOKENS,
        cached_share=np.full(n, 0.9),
        episode=np.arange(EPISODES).repeat(TOKENS),
        episodes=NAMES,
    )


def truth(margin_scale: float, disturbance: float) -> float:
    """Flips per 1,000 tokens in the limit: E over m of P(G < -m), episodes' spread included."""
    random = np.random.default_rng(99)
    own = np.exp(random.normal(0, 0.2, 400_000))
    margins = random.gamma(1.0, margin_scale, 400_000)
    return float(1000 * np.mean(0.5 * np.exp(-margins / (disturbance * own))))


def shapley(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """(by margins, by disturbance) in the limit."""
    r = {(a, b): truth((first, second)[a][0], (first, second)[b][1]) for a in (0, 1) for b in (0, 1)}
    by_margins = ((r[1, 0] - r[0, 0]) + (r[1, 1] - r[0, 1])) / 2
    by_disturbance = ((r[0, 1] - r[0, 0]) + (r[1, 1] - r[1, 0])) / 2
    return by_margins, by_disturbance


@pytest.mark.parametrize(
    ("first", "second", "finding"),
    [
        ((8.0, 0.03), (8.0, 0.15), "disturbance"),
        ((8.0, 0.1), (3.0, 0.1), "margins"),
        ((8.0, 0.05), (4.0, 0.15), "both"),
        ((4.0, 0.15), (8.0, 0.05), "both"),
        ((8.0, 0.05), (16.0, 0.2), "disturbance, against the margins"),
        ((16.0, 0.2), (8.0, 0.05), "disturbance, against the margins"),
        ((8.0, 0.1), (2.0, 0.07), "margins, against the disturbance"),
        ((8.0, 0.1), (4.0, 0.05), "against each other"),
        ((8.0, 0.1), (8.0, 0.1), "neither"),
    ],
)
def test_the_attribution_is_right_within_its_interval(
    first: tuple[float, float], second: tuple[float, float], finding: str
) -> None:
    found = decompose(made(*first, seed=1), made(*second, seed=2))
    assert found is not None
    by_margins, by_disturbance = shapley(first, second)
    assert found.margins.interval.low <= by_margins <= found.margins.interval.high
    assert found.disturbance.interval.low <= by_disturbance <= found.disturbance.interval.high
    assert found.finding == finding
    whole = found.second_predicted - found.first_predicted
    assert found.margins.change + found.disturbance.change == pytest.approx(whole)
    # Flips are counts: the prediction, which uses all pairs, lies within their Poisson error.
    allowed = 4 * np.sqrt(found.first_observed * EPISODES * TOKENS / 1000) * 1000 / (EPISODES * TOKENS)
    assert abs(found.first_predicted - found.first_observed) < allowed


@pytest.mark.slow
def test_its_intervals_cover_the_truth_in_most_of_many_studies() -> None:
    covered = np.zeros(2)
    expected = shapley((6.0, 0.05), (5.0, 0.1))
    for study in range(60):
        found = decompose(made(6.0, 0.05, seed=10 + study), made(5.0, 0.1, seed=500 + study), resamples=300)
        assert found is not None
        for i, share in enumerate((found.margins, found.disturbance)):
            covered[i] += share.interval.low <= expected[i] <= share.interval.high
    assert np.all(covered / 60 >= 0.85)


def test_predicted_rate_beside_an_obvious_loop() -> None:
    random = np.random.default_rng(5)
    m, g = random.gamma(1, 1, 50), random.normal(0, 1, 70)
    slow = np.mean([[change < -margin for change in g] for margin in m])
    assert predicted_rate(np.append(m, np.nan), np.append(g, np.nan)) == pytest.approx(slow)
    assert predicted_rate(np.array([np.nan]), g) is None


def test_bins_count_every_margin_once_and_agree_with_the_prediction() -> None:
    positions = made(2.0, 0.2, seed=7)
    found = flip_rate_by_margin(positions)
    assert [b.low for b in found] == list(MARGIN_BINS[:-1])
    assert sum(b.positions for b in found) == len(positions)
    assert sum(b.flips for b in found) == positions.flipped.sum()
    for b in found:
        assert b.predicted is not None
        # Margins and changes were drawn independently, so prediction and observation must meet.
        assert abs(b.predicted - b.observed) < 4 * np.sqrt(0.25 / b.positions) + 0.01
    few = flip_rate_by_margin(positions.where(np.arange(len(positions)) < 10))
    assert all(b.interval is None for b in few)


def test_nothing_observed_gives_no_decomposition() -> None:
    empty = made(1.0, 0.1, seed=1).where(np.zeros(EPISODES * TOKENS, bool))
    assert decompose(empty, made(1.0, 0.1, seed=1)) is None


def test_the_sentence_says_which_one_did_it() -> None:
    found = decompose(made(8.0, 0.03, seed=1), made(8.0, 0.15, seed=2))
    assert found is not None
    said = sentence("F16", "Q4_K_M", found)
    assert said.startswith("From F16 to Q4_K_M flips per 1000 tokens go from")
    assert "the disturbance did it" in said


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ((4.0, 0.15), "both did it"),
        ((16.0, 0.2), "the disturbance did it, and the margins took some of it back"),
        ((1.0, 0.035), "the margins did it, and the disturbance took some of it back"),
        ((4.0, 0.025), "they work against each other, and the change itself cannot be told from none"),
    ],
)
def test_the_sentence_never_credits_what_worked_against_the_change(
    second: tuple[float, float], words: str
) -> None:
    found = decompose(made(8.0, 0.05, seed=1), made(*second, seed=2))
    assert found is not None
    assert sentence("F16", "Q8_0", found).endswith(f" from the margins: {words}.")
