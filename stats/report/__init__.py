"""The report: reads traces, joins them, and makes tables. It only reads arms, never writes one."""
