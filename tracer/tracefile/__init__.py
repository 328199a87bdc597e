"""The trace file: one episode under one engine configuration, with all its arms.

Public surface of the package (docs/trace-format.md describes the bytes)::

    with TraceWriter.create(path, episode) as writer: ...      # new file, takes the writer's lock
    with TraceWriter.append(path) as writer: ...               # truncates a torn tail first
        arm = writer.begin_arm(arm)                            # Arm with its index set
        writer.write_request(arm.index, request, prompt_ids=…, path=…, alternatives=…, rows=…, pieces=…)
        writer.end_arm(arm.index, ArmEnd(...))

    trace = TraceReader.open(path)       # never raises on a torn tail: see trace.losses
    trace.episode, trace.arms, trace.losses
    trace.requests(arm)                  # tuple[Request, ...] in order
    trace.end(arm)                       # ArmEnd | None (None = incomplete)
    trace.prompt_ids(arm, i)             # int32[prompt] | None
    trace.path(arm, i)                   # PathColumns
    trace.alternatives(arm, i)           # Alternatives | None
    trace.rows(arm, i)                   # float32[n, vocabulary] | None
    trace.piece(token_id)                # bytes | None
    trace.has_rows(arm, i); trace.refresh()   # follow a file that is being written
    read_header(path)                    # Episode + arms count, without reading the columns
"""
