"""The lines of progress are tables: columns line up, and every number is where its heading says."""

import io
import time

import pytest
from event_streams import COUNTS, EVENTS, Gone

from rafm.metrics import shown_metrics
from rafm.options import resolve
from rafm.plan.ranks import RankPlan, describe_plan
from rafm.train.events import EpochFinished, PieceFinished, Planned, Resumed, table_header
from rafm.train.progress import show_events

METRICS = {"binary": {"log_loss": 0.45711, "auc": 0.775}, "regression": {"rmse": 1.25, "mae": 0.5}}


def header_of(task, judged):
    loss = resolve(task=task).loss
    return table_header(shown_metrics(loss, loss.metrics[0]), judged)


def ends_of(header, names):
    """Return where each heading ends."""
    return [header.index(name) + len(name) for name in names]


@pytest.mark.parametrize("task", METRICS)
@pytest.mark.parametrize("judged", [False, True])
def test_the_numbers_of_an_epoch_end_where_their_headings_end(task, judged):
    names = {"binary": ["valid loss", "valid auc"], "regression": ["valid rmse", "valid mae"]}[task]
    first = "train loss" if task == "binary" else "train rmse"
    header = header_of(task, judged)
    headings = ["epoch", first, *(names if judged else []), "seconds"]
    line = EpochFinished(12, 0.45102, METRICS[task] if judged else {}, 3.04, best=True).lines()[0]
    values = ["12", "0.45102", *(f"{value:.5f}" for value in METRICS[task].values() if judged), "3.0"]
    assert ends_of(header, headings) == ends_of(line, values)
    assert line.endswith("  best") == (line.split()[-1] == "best")


def test_an_undefined_metric_is_a_dash():
    line = EpochFinished(1, 0.5, {"log_loss": 0.1, "auc": None}, 0.0, best=False).lines()[0]
    assert line.split() == ["1", "0.50000", "0.10000", "-", "0.0"]
    assert len(line) == len(header_of("binary", True))


@pytest.mark.parametrize(
    "plan",
    [
        RankPlan("rafm", (4, 16), (100, 100, 10, 0)),
        RankPlan("rafm", (4, 16), (100, 90, 0, 0)),
        RankPlan("difacto", (4, 16), (100, 100, 10, 0)),
        RankPlan("mrma", (4, 16), (100, 100, 100, 0)),
    ],
    ids=["rafm", "rafm with an empty level", "difacto", "mrma"],
)
def test_the_plan_lists_each_level_then_the_model_and_a_plain_fm(plan):
    header, *levels, model, fm = Planned(plan, COUNTS, 1000).lines()
    described = describe_plan(plan, COUNTS, 1000)
    assert len(levels) == plan.n_levels
    for level, (line, told) in enumerate(zip(levels, described), start=1):
        found = line.split()
        assert found[:3] == [str(level), str(told["rank"]), str(told["features"])]
        assert [float(found[4]), float(found[5])] == [told["parameters"], told["bytes"]]
        assert len(line) == len(header)
    assert model.split()[:3] == ["model", str(plan.n_parameters), str(4 * plan.n_parameters)]
    assert int(fm.split()[4]) == 1 + 100 * (1 + plan.ranks[-1])


def test_an_fm_is_not_compared_with_itself():
    _, level, model = Planned(RankPlan("fm", (4,), (100, 100, 0)), COUNTS, 1000).lines()
    assert (level.split()[:2], model.split()[:2]) == (["1", "4"], ["model", "501"])


def test_the_plan_of_a_linear_model_has_no_levels():
    _, model = Planned(RankPlan("lr", (), (100, 0)), COUNTS, 1000).lines()
    assert model.split()[:2] == ["model", "101"]


def test_events_are_passed_on_as_they_are_and_printed_as_they_come():
    out = io.StringIO()
    shown = show_events(iter(EVENTS), resolve(task="binary"), stream=out)
    assert next(shown) is EVENTS[0]
    assert out.getvalue().count("\n") == 3  # the plan is there before the first epoch runs
    assert list(shown) == EVENTS[1:]
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines[3:]] == ["epoch", "1", "2"]


def test_nothing_is_printed_when_disabled(capsys):
    assert list(show_events(iter(EVENTS), resolve(task="binary"), enabled=False)) == EVENTS
    assert capsys.readouterr().out == ""


def test_lines_go_to_the_standard_output_of_the_moment(capsys):
    list(show_events(iter(EVENTS), resolve(task="binary")))
    assert capsys.readouterr().out.startswith("level  rank")


def test_a_reader_that_has_left_does_not_stop_the_events():
    events = [Planned(RankPlan("lr", (), (100, 0)), COUNTS, 1000), EpochFinished(1, 0.5, {}, 1.0, best=False)]
    assert list(show_events(events, resolve(task="binary"), stream=Gone())) == events


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


PIECE = PieceFinished(2, rows=65536, n_rows=131072, train_loss=0.4, seconds=2.0)


def test_a_terminal_shows_speed_and_time_left_between_the_lines(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    events = [*EVENTS[:2], PIECE, *EVENTS[2:]]
    shown = show_events(iter(events), resolve(task="binary"), stream=out)
    assert [next(shown) for _ in range(3)] == events[:3]
    time.sleep(0.3)  # the bar is drawn ten times a second
    assert list(shown) == events[3:]
    assert "epoch 2" in out.getvalue()
    assert "32,768 rows/s 0:00:02 left train loss 0.40000" in out.getvalue()
    for line in [*EVENTS[0].lines(), EVENTS[1].lines()[0], EVENTS[2].lines()[0]]:
        assert line in out.getvalue()


def test_a_pipe_gets_lines_alone():
    plain, with_pieces = io.StringIO(), io.StringIO()
    list(show_events(EVENTS, resolve(task="binary"), stream=plain))
    list(show_events([*EVENTS[:2], PIECE, *EVENTS[2:]], resolve(task="binary"), stream=with_pieces))
    assert with_pieces.getvalue() == plain.getvalue()


def test_a_resumed_table_has_its_heading_too():
    out = io.StringIO()
    events = [Resumed("states", 7, 64, finished=False), EpochFinished(7, 0.5, {}, 1.0, best=False)]
    list(show_events(events, resolve(task="binary"), stream=out))
    first, heading, line = out.getvalue().splitlines()
    assert first == "resuming from states: epoch 7, after 64 rows"
    assert heading.startswith("epoch ")
    assert line.split()[0] == "7"
