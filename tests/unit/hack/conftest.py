"""The developer tools are programs in hack/, not a package on the path of the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "hack"))
