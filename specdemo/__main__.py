"""python -m specdemo: the command line."""

import sys

from specdemo.cli import main

sys.exit(main())
