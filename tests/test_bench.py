"""`rafm bench` for real, on very few rows and without peers."""

import json

import pytest
from commands import run


@pytest.mark.slow
def test_the_command_writes_a_report_for_people_and_one_for_programs(tmp_path):
    out = tmp_path / "bench"
    run("bench", "growth", "memory", "--quick", "--scale", "0.01", "--peers", "", "--out", out)
    found = json.loads((out / "bench.json").read_text())
    assert {"growth", "memory"} <= set(found["parts"])
    text = (out / "bench.txt").read_text()
    assert "rafm" in text
    assert list(out.glob("*.png"))
