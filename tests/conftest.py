"""One thread of torch's a test process, and so in what it starts: several run at once, and threads that wait for a core
that another test has turn in circles meanwhile. Read before torch is imported.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
