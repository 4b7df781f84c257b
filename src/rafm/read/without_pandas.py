"""Programs that do without pandas, which Arrow would import if it is installed."""

from __future__ import annotations

import sys
from typing import Any


class WithoutPandas:
    """Stops Arrow from importing pandas, which is slow and which no command needs; see decision 0011."""

    def find_spec(self, name: str, *_: Any) -> None:
        """Refuse to find pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("rafm's commands do without pandas", name=name)

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)
