"""Clients that speak plain HTTP: no certificates are read for them."""

import ssl

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Given as `verify`: a client of httpx would else read all that there are, in 17 ms, to trust none
of them in what it is used for here.
"""
