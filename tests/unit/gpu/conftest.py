"""The harness uses the developer tools, which are programs in hack/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "hack"))
