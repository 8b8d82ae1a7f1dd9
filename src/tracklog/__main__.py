"""`python -m tracklog` is `tracklog`."""

from tracklog.cli import main

main()
