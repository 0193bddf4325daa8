"""Entry of the launcher; Python looks for the package in the directory of this file first."""

from warmpod.launcher.main import main

raise SystemExit(main())
