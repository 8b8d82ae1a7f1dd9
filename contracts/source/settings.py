RUN_ENV, PARENT_ENV, TRACE_ENV = "TRACKLOG_RUN_ID", "TRACKLOG_PARENT_RUN_ID", "TRACEPARENT"
URL_ENV, SPOOL_ENV = "TRACKLOG_URL", "TRACKLOG_SPOOL"
TOKEN_ENV, TOKEN_FILE_ENV = "TRACKLOG_TOKEN", "TRACKLOG_TOKEN_FILE"
PROTOCOL_HEADER, PROTOCOL = "Tracklog-Protocol", "1"
"""What an answer must carry to be believed."""
BATCH_BYTES, BATCH_LINES = 512 << 10, 1000
SEGMENT_BYTES = 8 << 20
SPOOL_BYTES = 1 << 30
MEMORY_BYTES = 8 << 20
REFUSED_BYTES = 64 << 20
ANSWER_BYTES = 64 << 20
LINGER, PATIENCE, LOOK_AROUND, LONGEST_PAUSE = 0.05, 15.0, 30.0, 30.0
"""Seconds: to wait for more lines, for an answer, between looks for left files, between tries."""
REFUSALS, FAILURES, STRIKES, FAR = 3, 12, 3, 64
"""Tries of a batch before those behind it are tried; how often they must pass; how far to look."""
CLOSE_SHARE, REGAINED = 0.75, 0.1
"""Of the deadline, what closing may take before the end of the process; regained per second."""
