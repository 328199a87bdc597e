"""The recording proxy: an unmodified agent points its base URL at it and is recorded.

Between client and upstream it adds to a request what a recording needs (``additions``), gives the
client exactly the answer that it asked for (``answers``), and writes each exchange into a trace
(``recording``). It sends nothing of its own upstream: a retry or a probe would change the cache.
"""
