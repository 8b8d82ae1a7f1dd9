"""`http://…`: the checkpoint is put there."""

from tracklog.collector.publishers._http import HttpPublisher

publisher = HttpPublisher
