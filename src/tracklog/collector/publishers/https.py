"""`https://…`: the checkpoint is put there."""

from tracklog.collector.publishers._http import HttpPublisher


class HttpsPublisher(HttpPublisher):
    """Puts the last checkpoint to a URL with TLS."""

    scheme = "https"


publisher = HttpsPublisher
