"""Tuning starts from the defaults, stays within its budget, resumes after a kill, and says how to repeat its result."""

import io
import re
import shlex
import signal
import subprocess
import sys

import numpy as np
import optuna
import pyarrow as pa
import pytest
from commands import rows_of_pairs, run, start

import rafm
from rafm.errors import ConfigError
from rafm.options import resolve
from rafm.tuning.display import running_line, show_trials
from rafm.tuning.records import Record
from rafm.tuning.space import Space
from rafm.tuning.study import open_study
from rafm.tuning.tune import TrialStarted

FAST = ("--epochs", 4, "--metric", "log_loss", "--threads", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with training rows, few and many, and validation rows."""
    folder = tmp_path_factory.mktemp("tune")
    (folder / "few.svm").write_text(rows_of_pairs(400))
    (folder / "rows.svm").write_text(rows_of_pairs(600))
    (folder / "many.svm").write_text(rows_of_pairs(5200))
    (folder / "valid.svm").write_text(rows_of_pairs(300, seed=1))
    return folder


def tuned(folder, *arguments, data="rows.svm", out="m.rafm"):
    """Run `rafm tune`; return its JSON."""
    ran = run("tune", folder / data, "--out", folder / out, "--json", *arguments)
    assert ran.code == 0, ran.err
    return ran.json()


def without_times(trials):
    return [{name: value for name, value in trial.items() if name != "seconds"} for trial in trials]


def test_the_first_trial_has_the_defaults(folder):
    found = tuned(folder, "--valid", folder / "valid.svm", "--trials", 1, *FAST, out="first.rafm")
    trained = run(
        "train", folder / "rows.svm", "--valid", folder / "valid.svm", "--out", folder / "t.rafm", *FAST, "--json"
    )
    assert found["trials"][0]["settings"] == {}
    assert found["best"]["value"] == min(epoch["valid_log_loss"] for epoch in trained.json()["history"])
    assert (folder / "first.rafm").read_bytes() == (folder / "t.rafm").read_bytes()


@pytest.mark.parametrize("case", ["validation rows", "held out"])
def test_the_printed_command_gives_the_same_model(folder, case):
    given = ("--valid", folder / "valid.svm") if case == "validation rows" else ()
    data, out = "many.svm" if case == "held out" else "few.svm", folder / f"{case.split()[0]}.rafm"
    found = tuned(folder, *given, "--trials", 3, *FAST, "--l2", "0.0001", data=data, out=out.name)
    assert len(found["trials"]) == 3
    model = out.read_bytes()
    name, *arguments = shlex.split(found["command"])
    assert name == "rafm"
    assert run(*arguments).code == 0
    assert out.read_bytes() == model


@pytest.mark.slow
def test_a_study_that_is_killed_and_resumed_ends_as_if_nothing_had_happened(folder):
    given = ("--valid", folder / "valid.svm", "--trials", 4, *FAST)
    whole = tuned(folder, *given, out="whole.rafm")
    assert [trial["state"] for trial in whole["trials"][:2]] == ["complete"] * 2  # defaults and measured ranks
    assert whole["best"] == min(
        (one for one in whole["trials"] if one["state"] == "complete"), key=lambda t: t["value"]
    )
    process = start("tune", folder / "rows.svm", "--out", folder / "killed.rafm", *given)
    for line in process.stdout:  # the second trial is done when its line is there
        if line.startswith(b"    2 "):
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = tuned(folder, *given, out="killed.rafm")
    assert without_times(again["trials"]) == without_times(whole["trials"])
    assert (folder / "killed.rafm").read_bytes() == (folder / "whole.rafm").read_bytes()
    (folder / "killed.rafm").unlink()  # complete, but the model is lost: it is trained again
    tuned(folder, *given, out="killed.rafm")
    assert (folder / "killed.rafm").read_bytes() == (folder / "whole.rafm").read_bytes()


@pytest.mark.parametrize(("flag", "limit"), [("--max-parameters", 150), ("--max-bytes", 40_000)])
def test_no_model_is_larger_than_allowed(folder, flag, limit):
    found = tuned(folder, "--valid", folder / "valid.svm", "--trials", 3, *FAST, flag, limit, out=f"small{limit}.rafm")
    assert found["best"]["state"] == "complete"
    model = rafm.load(folder / f"small{limit}.rafm")
    if flag == "--max-parameters":
        assert model.n_parameters_ <= limit
        assert found["trials"][0]["state"] == "too large"  # the defaults have more
        assert all(trial["parameters"] <= limit for trial in found["trials"] if trial["state"] == "complete")
    else:
        assert (folder / f"small{limit}.rafm").stat().st_size == found["model_bytes"] <= limit


def test_the_size_of_a_trial_is_known_even_if_its_model_was_not_trained_on_all_rows(folder):
    found = tuned(folder, "--trials", 4, "--ranks", "2,4", *FAST, data="few.svm", out="folds.rafm")
    assert min(trial["parameters"] for trial in found["trials"]) > 0


def test_what_is_given_is_not_tuned(folder):
    given = ("--model", "fm", "--ranks", 4, "--learning-rate", "0.1")
    found = tuned(folder, "--valid", folder / "valid.svm", "--trials", 4, *FAST, *given, out="fixed.rafm")
    assert {"model", "ranks", "learning_rate"}.isdisjoint(set().union(*(t["settings"] for t in found["trials"])))
    assert rafm.load(folder / "fixed.rafm").ranks == (4,)


def test_the_table_ends_with_frontier_plot_and_command(folder):
    ran = run(
        "tune",
        folder / "rows.svm",
        "--valid",
        folder / "valid.svm",
        "--out",
        folder / "p.rafm",
        "--trials",
        2,
        *FAST,
        "--plot",
        folder / "p.svg",
    )
    assert re.search(r"^    1 .* defaults  best$", ran.out, re.MULTILINE)
    assert "frontier of loss against size" in ran.out
    assert "rafm train" in ran.out
    assert (folder / "p.svg").read_text().startswith("<svg ")


def test_a_study_of_other_data_or_options_is_rejected(folder):
    given = ("tune", folder / "rows.svm", "--valid", folder / "valid.svm", "--trials", 1, *FAST)
    assert run(*given, "--out", folder / "other.rafm").code == 0
    assert "seed was 0, now 1" in run(*given, "--out", folder / "other.rafm", "--seed", 1).error()
    given = ("tune", folder / "few.svm", *given[2:])
    assert "training rows was 600, now 400" in run(*given, "--out", folder / "other.rafm").error()
    (folder / "text.study").write_text("not a study" * 100)
    assert (
        "cannot be used as a study"
        in run(*given, "--out", folder / "text.rafm", "--study", folder / "text.study").error()
    )


def test_a_first_trial_that_a_kill_left_in_the_queue_is_not_queued_again(tmp_path):
    space, path = Space(resolve(task="binary"), frozenset()), tmp_path / "study"
    with open_study(path, space, {}) as study:
        study.inner.enqueue_trial(space.known()[0][0])
    with open_study(path, space, {}) as study:
        for number, recipe in enumerate(("plain", "auto"), 1):
            trial, _ = study.ask()
            assert trial.params["recipe"] == recipe
            study.tell(trial, Record(number, "complete", 0.5), 1.0)
        assert study.best == Record(1, "complete", 0.5)


def test_a_study_is_used_by_one_process_at_a_time(folder):
    study, given = folder / "alone.study", ("--valid", folder / "valid.svm", "--trials", 1, *FAST)
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'ab'); fcntl.flock(file, 2); print('locked', flush=True); input()"
    )
    holder = subprocess.Popen([sys.executable, "-S", "-c", script, study], stdin=-1, stdout=-1)
    holder.stdout.readline()
    ran = run("tune", folder / "rows.svm", "--out", folder / "alone.rafm", "--study", study, *given)
    holder.communicate(b"\n")
    assert "another process is tuning" in ran.error()
    assert ran.code == 4


def test_rows_to_judge_by_are_needed(folder):
    ran = run("tune", folder / "rows.svm", "--out", folder / "n.rafm", "--valid-share", 0)
    assert ran.error() == "--valid-share 0 leaves no rows to compare trials on"


# ---- What is suggested


@pytest.mark.parametrize(
    ("task", "expected"), [("regression", ["adagrad", "gibbs", "adagrad"]), ("binary", ["adagrad", None])]
)
def test_the_first_trials_train_ratings_by_steps_sample_them_and_measure_ranks(task, expected):
    known = Space(resolve(task=task), frozenset()).known()
    assert [settings.get("optimizer") for _, settings in known] == expected


def test_under_a_limit_of_size_sampled_ratings_are_cut_to_it():
    space = Space(resolve(task="regression"), frozenset(), has_size=True)
    _, (fixed, settings), _ = space.known()
    assert settings == {"optimizer": "gibbs", "ranks": "auto"}
    assert space.suggest_known(optuna.trial.FixedTrial(fixed), fixed, settings) == settings
    assert resolve(task="regression", max_parameters=100, **settings).measured


@pytest.mark.parametrize("model", ["rafm", "fm", "lr", "difacto", "mrma"])
@pytest.mark.parametrize("task", ["binary", "regression", "count"])
def test_every_suggestion_is_a_valid_choice_and_the_defaults_are_one(task, model):
    space = Space(resolve(task=task, model=model), frozenset({"model"}), n_fields=3)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen = set()
    for _ in range(25):
        settings = space.suggest(study.ask())
        resolve(task=task, **{"model": model, **settings})
        seen |= set(settings)
    assert "learning_rate" in seen
    assert ("rank_scale" in seen) == (model in ("rafm", "difacto"))
    (fixed, settings), *_ = space.known()
    assert settings == {}
    drawn = space.suggest(optuna.trial.FixedTrial(fixed))  # fails if a default is missing
    own = resolve(task=task, **{"model": model, **drawn}).summary()
    usual = resolve(task=task, model=model).summary()
    assert {name for name in own if own[name] != usual[name]} <= {"l2_weights", "field_weights"}


# ---- In Python


def table_of_pairs(n_rows=1500, seed=0):
    user, item = np.random.default_rng(seed).integers(12, size=(2, n_rows))
    return pa.table({"user": user.astype(str), "item": item.astype(str)}), (user + item) % 2


def test_an_estimator_is_tuned_and_resumed(tmp_path):
    X, y = table_of_pairs()
    given = rafm.RaFMClassifier(n_epochs=4, random_state=3, field_weights="off")
    first = rafm.tune(given, X, y, eval_set=table_of_pairs(300, 1), trials=3, study=tmp_path / "s.study")
    assert not hasattr(given, "model_")
    assert [trial["number"] for trial in first.trials_] == [1, 2, 3]
    assert (first.n_epochs, first.random_state) == (4, 3)
    again = rafm.tune(given, X, y, eval_set=table_of_pairs(300, 1), trials=3, study=tmp_path / "s.study")
    assert again.trials_ == first.trials_
    assert np.array_equal(again.predict_proba(X), first.predict_proba(X))
    fitted = rafm.RaFMClassifier(**first.get_params()).fit(X, y, eval_set=table_of_pairs(300, 1))
    assert np.array_equal(fitted.predict_proba(X), first.predict_proba(X))


def test_a_budget_that_no_model_meets_is_an_error():
    X, y = table_of_pairs()
    with pytest.raises(ConfigError, match="max_parameters"):
        rafm.tune(rafm.RaFMClassifier(n_epochs=2, field_weights="off"), X, y, trials=2, max_parameters=5)
    with pytest.raises(ConfigError, match=r"no trial gave a model \(too large\): raise the limits of size or time"):
        rafm.tune(rafm.RaFMClassifier(4, model="fm", n_epochs=2), X, y, trials=2, max_bytes=300)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_shows_the_running_trial_below_the_lines(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    events, out = [TrialStarted(7, {"model": "fm", "ranks": [4]})], Terminal()
    shown = show_trials(events, "log_loss", out)
    assert next(shown) == events[0]
    assert list(shown) == []
    assert running_line(events[0]) in out.getvalue()
