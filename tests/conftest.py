"""What all tests share."""

from hypothesis import settings

from soaking import SOAK

settings.register_profile(
    "tracklog",
    deadline=None,  # a busy machine is no failure
    max_examples=100 * SOAK,
)
settings.load_profile("tracklog")
