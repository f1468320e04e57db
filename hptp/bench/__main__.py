"""`python -m hptp.bench` is `hptp bench`."""

import sys

from hptp.cli import main

sys.exit(main(["bench", *sys.argv[1:]]))
