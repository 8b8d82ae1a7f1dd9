"""Recording inside or around an agent: the Recorder, transcripts, live subscribers, tapes."""
