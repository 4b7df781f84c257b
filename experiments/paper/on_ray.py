"""Experiment B on a Ray cluster: the same days from Parquet, and the same digits as one process without Ray.

Both train by slots of rows (docs/decisions/0030), so their digits differ from those of mini-batches in figure4.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rafm.distributed.group import Group, LocalGroup
from rafm.model.model import Model

from .artefact import Artefact
from .budget import Budget
from .industrial import evaluated, options_of, stream_artefact, stream_points, streams_of
from .lab import Lab
from .stream import Stream
from .tasks import Result

NONE, CLUSTER = "none", "cluster"  # where a run is trained
GROUP_ROWS = 1 << 15


class ClusterRuns:
    """Executes runs of the stream on a cluster, or by the same slots in this process.

    Processes start with the first run, and serve all of them. The days are written below `folder`, which all machines
    must share, and removed in the end.
    """

    def __init__(self, address: str, workers: int, folder: Path, group: Group | None = None):
        self.address, self.workers, self.folder = address, workers, folder
        self.stack, self.given = ExitStack(), group

    def __enter__(self) -> ClusterRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    @cached_property
    def group(self) -> Group:
        """Return the processes of the cluster."""
        from rafm.distributed.config import ScalingConfig
        from rafm.distributed.training import group_of

        if self.given is not None:
            return self.given
        return self.stack.enter_context(group_of(self.address, ScalingConfig(self.workers)))

    @cached_property
    def place(self) -> Path:
        """Return the folder of the days."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-", dir=self.folder)))

    def __call__(self, task: dict[str, Any], folder: Path) -> Result:
        """Train on some days and evaluate on another."""
        from rafm.distributed.inputs import open_training
        from rafm.distributed.training import train_events
        from rafm.read.open import ReadOptions
        from rafm.train.events import Finished

        training, later = streams_of(task)
        options = replace(options_of(task), validation_fraction=0.0)
        group: Group = LocalGroup() if task["ray"] == NONE else self.group
        given = open_training(str(self._written(training)), ReadOptions("binary"))._replace(n_inputs=later.n_features)
        *_, last = train_events(given, options, address=self.address, group=group)
        if isinstance(group, LocalGroup):
            group.close()
        assert isinstance(last, Finished)
        return {**evaluated(last.model, later), "sha256": digest_of(last.model)}

    def _written(self, stream: Stream) -> Path:
        """Write the days of a stream as Parquet, once; return their folder."""
        place = self.place / f"{stream.rows_per_day}-{stream.seed}-{len(stream.days)}"
        if not place.exists():
            place.mkdir()
            for number in range(stream.n_blocks):
                write_block(place / f"block-{number:04d}.parquet", stream, number)
        return place


def figure4_on_ray(lab: Lab, budget: Budget, address: str) -> Artefact:
    """Return figure4, trained on a cluster, and how it compares with one process."""
    where = NONE if address == NONE else CLUSTER
    points, tasks = stream_points(lab, budget, {"ray": where})
    usual = stream_artefact(budget, points)
    text = [*usual.text, "Trained by slots of wide steps (docs/decisions/0030), not by mini-batches as in figure4."]
    if where == CLUSTER:
        text.append(compared(lab.results(tasks), lab.results([{**task, "ray": NONE} for task in tasks])))
        lab.tell(text[-1])
    title = f"{usual.title}, on {'a Ray cluster' if where == CLUSTER else 'the slots of a cluster in one process'}"
    config = {**usual.config, "ray": where}
    return replace(usual, name=f"figure4-ray-{where}", title=title, config=config, text=text)


def write_block(path: Path, stream: Stream, number: int) -> None:
    """Write a block of a stream as rows of ids."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = stream.block(number)
    ids = pa.ListArray.from_arrays(pa.array(rows.indptr.astype(np.int32)), pa.array(rows.indices))
    parquet.write_table(pa.table({"label": rows.labels, "ids": ids}), path, row_group_size=GROUP_ROWS)


def digest_of(model: Model) -> str:
    """Return the SHA-256 of ids and parameters."""
    arrays = {**model.parameters.arrays(), "ids": model.numbering.ids}
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


def compared(found: Sequence[Result], alone: Sequence[Result]) -> str:
    """Return a sentence on whether runs of a cluster gave the digits of one process."""
    pairs = [*zip(found, alone, strict=True)]
    same = sum(one == other for one, other in pairs)
    if same == len(pairs):
        return (
            f"All {same} runs on the cluster gave the digits of one process without Ray (`--ray none`): size, every "
            "metric, and the SHA-256 of all parameters are equal."
        )
    apart = max(abs(one["test"]["auc"] - other["test"]["auc"]) for one, other in pairs)
    return (
        f"**{len(pairs) - same} of {len(pairs)} runs on the cluster differ from one process without Ray** (`--ray "
        f"none`), in AUC by at most {apart:.2g}. This is an error in rafm: please report it."
    )
