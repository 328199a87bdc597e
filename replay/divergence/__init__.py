"""Divergence between arms: verdicts, drift, flips, triage, attribution, and the sentence for people.

Public surface::

    analyse(trace)                       # EpisodeAnalysis: every arm and every repeat
    compare_arms(trace, a, b)            # Comparison of two arms of one trace
    compare_across((trace_a, a), (trace_b, b))      # of two traces of one episode
    assess_arm(trace, arm)               # was the cache state what the arm claims
    arm_groups(trace), resolve_arm(trace, label)
    position_drift(…), aligned_tokens(…), after_flip(…), cache_timeline(…)      # what the screen shows

The flow of one comparison: ``pairing`` chooses the arms, ``guards`` refuses, ``request_verdict``
judges each request (``numbers`` and ``evidence`` do the arithmetic), ``flip`` and ``triage`` describe
what flipped, ``attribution`` says whether the cache is to blame, ``sentence`` says it to a person.
"""

from replay.divergence.analyse import DEFAULT_NEAR_TIE, analyse, compare_across, compare_arms
from replay.divergence.assessment import assess_arm
from replay.divergence.cache_timeline import PromptStretch, RequestCache, Stretch, cache_timeline
from replay.divergence.pairing import ArmGroup, arm_groups, resolve_arm
from replay.divergence.readable import ReadableTrace
from replay.divergence.request_verdict import Detail
from replay.divergence.sentence import amount, named_token
from replay.divergence.triage import FAR, FEWEST_POSITIONS, REPETITION
from replay.divergence.views import (
    AfterFlip,
    AlignedTokens,
    PositionDrift,
    after_flip,
    aligned_tokens,
    arm_margins,
    position_drift,
)

__all__ = [
    "DEFAULT_NEAR_TIE",
    "FAR",
    "FEWEST_POSITIONS",
    "REPETITION",
    "AfterFlip",
    "AlignedTokens",
    "ArmGroup",
    "Detail",
    "PositionDrift",
    "PromptStretch",
    "ReadableTrace",
    "RequestCache",
    "Stretch",
    "after_flip",
    "aligned_tokens",
    "amount",
    "analyse",
    "arm_groups",
    "arm_margins",
    "assess_arm",
    "cache_timeline",
    "compare_across",
    "compare_arms",
    "named_token",
    "position_drift",
    "resolve_arm",
]
