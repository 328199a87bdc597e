"""Experiments that isolate the cause: which layer, which order, and the restored state.

Each experiment is one trace file in one folder; its requests are ITEMS, independent of each other.
``Request.turn`` is the number of the item, whatever the order in which the items were served, so two
arms are paired by turn. ``Episode.notes["experiment"]`` names the experiment, ``Arm.note`` the cell:

==================  ============================================  =====================================
file and experiment arms (note; state, repeat, pass)              what to compare
==================  ============================================  =====================================
second-layer        ``second layer on`` (warm, pass 0 and 1),     in each cell pass 1 against pass 0:
                    ``second layer off`` (no-prompt-cache)        items that differ on minus off, paired
pass-order          ``second layer on|off; CRCR|CCRR``, passes    in each cell the last cached pass
                    0 to 3; C = warm or no-prompt-cache, R = cold against the first; and the last cached
                    (cold, on the same running engine)            passes of both orders, on and off
item-order          ``second layer on|off; forward`` twice        forward repeat 1 against repeat 0
                    (repeat 0 and 1), ``…; reverse`` once         (control), reverse against forward
restored            ``restored`` (warm: the reference; then       snapshot 1 against 0, cold 1 against 0,
                    snapshot and cold, repeat 0 and 1)            cold against snapshot
==================  ============================================  =====================================

Built-in items share a system prompt in item-order and restored (neighbours then meet each other's
tokens) and nothing in the other two (a second layer only acts between prompts that have little in
common). An item that had no cached token in either arm was not manipulated; the first item of a fresh
start is such a one. ``cells.items_of`` gives the verdict of each item of two arms, and
``outcomes.outcomes`` every pair of the last column with its counts.
"""
