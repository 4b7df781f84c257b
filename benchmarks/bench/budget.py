"""The amount of work of the benchmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Budget:
    """Sizes and limits of all parts."""

    name: str
    ranks: tuple[int, ...] = (8, 32, 128, 512)
    shape_rows: tuple[tuple[str, int], ...] = (("frappe", 100_000), ("criteo", 30_000))
    epochs: int = 3  # epochs timed per peer
    peer_factors: float = 1.5e8  # peers skip tables with more factors than this
    peer_seconds: float = 45.0  # time limit of one measurement of a peer
    slowest: float = 1e4  # a peer slower than rafm by this factor is not run at larger ranks
    race_rows: int = 250_000
    race_epochs: int = 32
    race_settings: int = 2  # settings tried per contestant
    race_seconds: float = 40.0  # time limit of the search per contestant
    parse_megabytes: float = 20.0
    growth_rows: int = 20_000
    memory_rows: int = 100_000
    stream_megabytes: float = 256.0  # size of the array that measures memory bandwidth; larger than any cache

    def scaled(self, scale: float) -> Budget:
        """Return a budget with rows and bytes multiplied by scale.

        >>> QUICK.scaled(0.01).race_rows
        600
        """
        return replace(
            self,
            shape_rows=tuple((shape, max(200, int(scale * rows))) for shape, rows in self.shape_rows),
            race_rows=max(400, int(scale * self.race_rows)),
            parse_megabytes=scale * self.parse_megabytes,
            growth_rows=max(320, int(scale * self.growth_rows)),
            memory_rows=max(400, int(scale * self.memory_rows)),
            stream_megabytes=max(1.0, scale * self.stream_megabytes),
        )


FULL = Budget("full")
QUICK = Budget(
    "quick",
    shape_rows=(("frappe", 20_000), ("criteo", 5000)),
    epochs=2,
    peer_factors=5e6,
    peer_seconds=5.0,
    slowest=20.0,
    race_rows=60_000,
    race_epochs=8,
    race_settings=1,
    race_seconds=5.0,
    parse_megabytes=4.0,
    growth_rows=8000,
    memory_rows=20_000,
    stream_megabytes=64.0,
)
