"""Entry of the launcher; Python looks for the package in the directory of this file first."""

from warmpod.firstprocess import end_when_told

end_when_told()

from warmpod.launcher.main import main  # noqa: E402

raise SystemExit(main())
