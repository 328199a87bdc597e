"""Which setting is to blame for cold-against-warm divergence on one episode.

In the order in which a bisect goes through them::

    settings       what can be changed on which engine, and how
    candidates     the configurations to try: single changes, then pairs
    requests       which recorded requests are asked
    trial_run      one configuration: cold and warm arms into a trace file of its own
    trial_process  the same in a process of its own, since native code may abort
    trial_reading  what that file says: do the two paths agree, did the cold numbers move, how fast
    ranking        which of two changes is the smaller one
    search         default first, single settings, pairs of settings, and the verifying run
    outcome        the records that come out; ``stats.bisect_table`` makes tables of them

Every arm goes through ``tracer.arm_loop``; nothing here talks to an engine by itself.
"""
