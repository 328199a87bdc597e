"""Every verdict of a request, by columns made by hand."""

import numpy as np
import pytest

from replay.divergence import analyse, compare_across, compare_arms, position_drift
from replay.verdicts import DriftFrom, Evidence, Verdict
from tests.replay.memory_trace import MemoryTrace, exposure, served, two_arms
from tracer.columns import PositionFlag, empty_path
from tracer.episode import (
    CacheState,
    EngineInfo,
    Identity,
    RequestError,
    Sampling,
    Scale,
    StopReason,
    Way,
)

LISTS = [{7: 3.0, 8: 2.0, 9: 1.0}, {5: 4.0, 6: 3.5, 4: 1.0}]


def same(**changes):
    return served(
        [7, 5], **{"values": [3.0, 4.0], "lse": [3.5, 4.5], "prints": [1, 2], "lists": LISTS, **changes}
    )


def verdict_of(a, b, **fields):
    return compare_arms(two_arms([a], [b]), 0, 1, **fields).requests[0]


def test_identical_by_row():
    verdict = verdict_of(same(), same())
    assert (verdict.verdict, verdict.evidence) == (Verdict.IDENTICAL, Evidence.ROW)
    assert (verdict.max_drift, verdict.first_drift, verdict.drift_from) == (0.0, None, DriftFrom.TOP_K)


def test_identical_by_top_k_and_by_chosen():
    for detail in ("alternatives", "path"):
        verdict = verdict_of(same(prints=None), same(), detail=detail)
        assert (verdict.verdict, verdict.evidence) == (Verdict.IDENTICAL, Evidence.TOP_K)
        assert (verdict.max_drift, verdict.drift_from) == (0.0, DriftFrom.TOP_K)
    verdict = verdict_of(same(prints=None, lists=None), same())
    assert (verdict.verdict, verdict.evidence) == (Verdict.IDENTICAL, Evidence.CHOSEN)


def test_another_row_is_drift_though_the_top_k_agrees():
    verdict = verdict_of(same(), same(prints=[1, 9]))
    assert (verdict.verdict, verdict.evidence, verdict.first_drift) == (Verdict.DRIFTED, Evidence.ROW, 1)
    assert verdict.max_drift == 0.0


def test_tokens_without_numbers_are_unobserved_and_never_equal():
    bare = served([7, 5])
    verdict = verdict_of(bare, same())
    assert (verdict.verdict, verdict.evidence) == (Verdict.UNOBSERVED, Evidence.TOKENS)
    assert "2 of 2 positions" in verdict.reason
    assert verdict.max_drift is None
    assert verdict.drift_from is None


def test_one_position_without_numbers_is_enough_to_be_unobserved():
    partly = same(values=None, prints=None, lists=[LISTS[0], {}])
    assert verdict_of(partly, partly).verdict is Verdict.UNOBSERVED
    moved = same(values=None, prints=None, lists=[{7: 3.25, 8: 2.0, 9: 1.0}, {}])
    assert verdict_of(partly, moved).verdict is Verdict.DRIFTED


def test_drift_is_taken_over_ids_in_both_lists_after_normalising():
    a = same(prints=None)
    b = same(prints=None, values=[3.5, 4.0], lse=[3.75, 4.5], lists=[{7: 3.5, 3: 2.5, 9: 1.0}, LISTS[1]])
    verdict = verdict_of(a, b)
    assert verdict.verdict is Verdict.DRIFTED
    assert verdict.max_drift == pytest.approx(0.25)  # both 7 (3-3.5 to 3.5-3.75) and 9 (1-3.5 to 1-3.75)
    assert verdict.median_drift == pytest.approx(0.125)
    assert verdict.max_gap_change == 0.0  # only where the baseline's two best stand in both lists


def test_path_detail_gives_the_chosen_tokens_drift_and_says_so():
    a, b = same(prints=None), same(prints=None, values=[3.0, 4.0], lists=[{7: 3.0, 8: 1.0}, LISTS[1]])
    full, path = verdict_of(a, b), verdict_of(a, b, detail="path")
    assert full.verdict is path.verdict is Verdict.DRIFTED
    assert (full.max_drift, full.drift_from) == (1.0, DriftFrom.TOP_K)
    assert (path.max_drift, path.drift_from) == (0.0, DriftFrom.CHOSEN)


def test_logit_without_log_sum_exp_has_no_drift():
    a, b = same(prints=None, lse=None), same(prints=None, lse=None, values=[3.5, 4.0], lists=None)
    verdict = verdict_of(a, b)
    assert verdict.verdict is Verdict.DRIFTED
    assert verdict.max_drift is None


def test_logprobs_need_no_log_sum_exp():
    a = served([7], values=[-0.5], scale=Scale.LOGPROB)
    b = served([7], values=[-0.625], scale=Scale.LOGPROB)
    assert verdict_of(a, b).max_drift == 0.125


def test_scales_that_differ_can_show_a_difference_but_never_bit_identity():
    logits = served([7], values=[3.0], lse=[3.5])
    assert verdict_of(logits, served([7], values=[-0.5], scale=Scale.LOGPROB)).verdict is Verdict.UNOBSERVED
    moved = verdict_of(logits, served([7], values=[-0.75], scale=Scale.LOGPROB))
    assert (moved.verdict, moved.max_drift) == (Verdict.DRIFTED, 0.25)


def test_bit_identity_is_never_claimed_across_engines():
    trace, other = two_arms([same()], [same()]), MemoryTrace()
    other.add_arm([same()], engine=EngineInfo(engine="llama-server", model_hash="sha256:a", threads=2))
    verdict = compare_across((trace, 0), (other, 0)).requests[0]
    assert verdict.verdict is Verdict.UNOBSERVED
    assert "across engines" in verdict.reason


def test_a_flip_has_both_tokens_ranks_values_margins_and_drift():
    a = same()
    b = served(
        [7, 6],
        values=[3.0, 3.75],
        lse=[3.5, 4.5],
        prints=[1, 3],
        lists=[LISTS[0], {6: 3.75, 5: 3.5, 4: 1.0}],
    )
    verdict = verdict_of(a, b)
    flip = verdict.flip
    assert verdict.verdict is Verdict.FLIPPED
    assert (flip.position, flip.length_difference) == (1, False)
    assert (flip.a.token_id, flip.a.value, flip.a.rank, flip.a.margin) == (5, 4.0, 0, 0.5)
    assert (flip.b.token_id, flip.b.value, flip.b.rank, flip.b.margin) == (6, 3.75, 0, 0.25)
    assert (flip.a.other_value, flip.a.other_rank, flip.b.other_value, flip.b.other_rank) == (3.5, 1, 3.5, 1)
    assert (flip.drift_at, flip.drift_before, flip.gap_change) == (0.5, 0.0, -0.75)
    assert flip.least_drift == 0.375
    assert flip.near_tie is False
    assert flip.raw_change is None
    assert flip.a.piece == b"t5"
    assert (
        flip.sentence
        == "`t5` led by 0.5 when cold; `t6` leads by 0.25 when warm; the logits moved by up to 0.5"
    )


def test_raw_change_only_with_rows_of_both_arms():
    rows = np.zeros((2, 10), np.float32)
    moved = rows.copy()
    moved[1, 9] = -4.0
    b = served([7, 6], values=[3.0, 3.75], lse=[3.5, 4.5], rows=moved)
    assert verdict_of(same(rows=rows), b).flip.raw_change == 4.0
    assert verdict_of(same(), b).flip.raw_change is None


def test_the_threshold_of_a_near_tie_is_the_users():
    a = served([1], lists=[{1: 2.0, 2: 1.9}])
    b = served([2], lists=[{2: 2.0, 1: 1.9}])
    assert verdict_of(a, b, near_tie=0.2).flip.near_tie is True
    assert verdict_of(a, b, near_tie=0.05).flip.near_tie is False
    assert verdict_of(served([1]), b).flip.near_tie is False  # the other arm's margin speaks
    assert verdict_of(served([1]), served([2])).flip.near_tie is None


def test_an_exact_tie_is_printed_as_a_tie():
    a = served([1], lists=[{1: 2.0, 2: 2.0}], flags=PositionFlag.EXACT_TIE)
    b = served([2], lists=[{2: 2.125, 1: 2.0}])
    flip = verdict_of(a, b).flip
    assert flip.a.exact_tie
    assert flip.a.margin == 0.0
    assert flip.sentence.startswith("`t1` and `t2` were exactly tied when cold; `t2` leads by 0.12 when warm")


def test_a_length_difference_is_a_flip_at_the_end():
    verdict = verdict_of(same(), served([7], values=[3.0], lse=[3.5], prints=[1], lists=LISTS[:1]))
    flip = verdict.flip
    assert (flip.position, flip.length_difference, verdict.compared_positions) == (1, True, 1)
    assert flip.b.token_id is None
    assert flip.b.margin is None
    assert flip.b.why_no_margin == "this arm had ended"
    assert (flip.a.token_id, flip.a.margin) == (5, 0.5)
    assert flip.drift_at is None
    assert "the answer has ended when warm" in flip.sentence


def test_an_answer_that_is_empty_in_one_arm():
    flip = verdict_of(served([]), same()).flip
    assert (flip.position, flip.a.token_id, flip.b.token_id) == (0, None, 7)
    assert flip.drift_before is None


@pytest.mark.parametrize(
    ("flag", "why"), [(PositionFlag.FORCED, "forced"), (PositionFlag.MERGED, "several tokens")]
)
def test_a_position_that_was_not_chosen_has_no_margin(flag, why):
    flip = verdict_of(served([1], lists=[{1: 2.0, 2: 1.0}], flags=flag), served([2])).flip
    assert flip.a.margin is None
    assert why in flip.a.why_no_margin
    assert flip.b.why_no_margin == "alternatives were not observed"


def test_failed_cut_and_lost_requests():
    error = RequestError(kind="EngineError", message="no")
    assert verdict_of(same(), served([], error=error)).verdict is Verdict.FAILED
    assert verdict_of(same(), same(stop=StopReason.CUT)).verdict is Verdict.INCOMPLETE
    lost = RequestError(kind="lost", message="bad checksum")
    assert verdict_of(same(), served([], error=lost)).verdict is Verdict.INCOMPLETE


def test_prompts_that_differ_after_and_without_a_flip():
    other = {"prompt": (9, 9)}
    trace = two_arms(
        [same(), same(), same()],
        [same(), served([8, 8]), same(**other)],
        way=Way.CLOSED_LOOP,
    )
    assert [v.verdict for v in compare_arms(trace, 0, 1).requests] == [
        Verdict.IDENTICAL,
        Verdict.FLIPPED,
        Verdict.DOWNSTREAM,
    ]
    clock = two_arms([same(), same()], [same(), same(**other)], way=Way.CLOSED_LOOP)
    assert compare_arms(clock, 0, 1).requests[1].verdict is Verdict.PROMPT_CHANGED


def test_requests_that_only_one_arm_made():
    flipped = two_arms([same(), same()], [served([8])], way=Way.CLOSED_LOOP)
    assert compare_arms(flipped, 0, 1).requests[1].verdict is Verdict.DOWNSTREAM
    shorter = two_arms([same(), same()], [same()], way=Way.CLOSED_LOOP)
    assert compare_arms(shorter, 0, 1).requests[1].verdict is Verdict.PROMPT_CHANGED
    cut = two_arms([same(), same()], [same()], complete=False)
    assert compare_arms(cut, 0, 1).requests[1].verdict is Verdict.INCOMPLETE
    part = two_arms([same(), same()], [same()])  # replayed only up to the request that was looked at
    assert compare_arms(part, 0, 1).requests[1].verdict is Verdict.INCOMPLETE
    assert compare_arms(part, 0, 1).differs is None


def test_prompts_that_nobody_observed_are_not_called_equal():
    trace = two_arms([same()], [same()])
    trace.prompt_ids = lambda arm, request: None
    for one in trace.served:
        one[0].request = one[0].request.__class__(index=0, output_tokens=2, scale=Scale.LOGIT)
    assert compare_arms(trace, 0, 1).requests[0].verdict is Verdict.UNOBSERVED


def test_local_ids_of_two_files_are_compared_by_their_strings():
    def trace_with(pieces, tokens):
        trace = MemoryTrace(pieces=pieces)
        lists = [{t: -0.5} for t in tokens]
        trace.add_arm([served(tokens, lists=lists, scale=Scale.LOGPROB, identity=Identity.TOKEN_STRING)])
        return trace

    a = trace_with({0: b"yes", 1: b"no"}, [0, 1])
    same_text = trace_with({2**30: b"no", 5: b"yes"}, [5, 2**30])
    verdict = compare_across((a, 0), (same_text, 0)).requests[0]
    assert verdict.verdict is Verdict.IDENTICAL
    other_text = trace_with({0: b"no", 1: b"never"}, [0, 1])
    flip = compare_across((a, 0), (other_text, 0)).requests[0].flip
    assert (flip.position, flip.a.piece, flip.b.piece, flip.b.token_id) == (0, b"yes", b"no", 0)


def test_hostile_token_text_is_cleaned_in_the_sentence():
    trace = two_arms([served([1], lists=[{1: 2.0, 2: 1.0}])], [served([2], lists=[{2: 2.0, 1: 1.0}])])
    trace.pieces = {1: b"\x1b[31m\xe2\x80\xae", 2: b" a\n"}
    sentence = compare_arms(trace, 0, 1).requests[0].flip.sentence
    assert "\x1b" not in sentence
    assert "\u202e" not in sentence
    assert "\n" not in sentence
    assert "`·a" in sentence


def test_equal_rows_and_path_verdicts_leave_the_alternatives_unread():
    trace = MemoryTrace()
    trace.add_arm([same()] * 3)
    trace.add_arm([same()] * 3, repeat=1)
    trace.add_arm([same(), same(prints=[1, 9], exposure=exposure(2)), same()], state=CacheState.WARM)
    analyse(trace, detail="path")
    assert trace.reads["alternatives"] == 0
    analyse(trace)
    assert trace.reads["alternatives"] == 2  # the drifted request, in both arms


def test_a_lost_request_does_not_refuse_the_others():
    lost = RequestError(kind="lost", message="bad checksum")
    a = [same(sampling=Sampling(max_new_tokens=5)), same(sampling=Sampling(max_new_tokens=5))]
    b = [same(sampling=Sampling(max_new_tokens=5)), served([], error=lost)]
    comparison = compare_arms(two_arms(a, b), 0, 1)
    assert comparison.mismatches == ()
    assert [v.verdict for v in comparison.requests] == [Verdict.IDENTICAL, Verdict.INCOMPLETE]


@pytest.mark.parametrize("index", [-1, 7, 10**9])
def test_an_arm_that_names_arms_that_are_not_there(index):
    trace = two_arms([same()], [same()], way=Way.FORCED, source_arm=index, reference_arm=index)
    analysis = analyse(trace)
    assert [(c.baseline, c.arm) for c in analysis.comparisons] == [(0, 1)]


def test_a_lost_path_is_no_flip():
    trace = two_arms([same()], [same()])
    trace.served[1][0].path = empty_path()
    verdict = compare_arms(trace, 0, 1).requests[0]
    assert (verdict.verdict, verdict.reason) == (
        Verdict.INCOMPLETE,
        "the tokens of warm are lost from the file",
    )
    assert np.isnan(position_drift(trace, 0, 1, 0).drift).all()
