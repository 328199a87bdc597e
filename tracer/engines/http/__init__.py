"""What every engine that is reached over HTTP shares: its answers, its refusals, its transport.

Read in this order: ``endpoint`` (one request, never repeated), ``wire`` (the shapes on the wire),
``assemble`` (whole bodies and streams alike), ``align`` and ``answer_columns`` (the numbers),
``cached_count`` (exposure), ``answer`` (all of it together).
"""
