"""Runs of Gibbs sampling: events, stopping, resuming, the model they leave, and what is refused."""

import signal
import subprocess
import time

import naive
import numpy as np
import pytest
from commands import finish, run, start
from scipy.sparse import csr_matrix
from worlds import changed_rows, planted, run_python

from rafm import RaFMRegressor, load
from rafm.errors import CheckpointError, ConfigError, DivergenceError, ResourceLimitError
from rafm.model.file import Saved, save
from rafm.optimizers import optimizer_for
from rafm.options import resolve
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.rows.spill import SpilledRows, SpillOptions
from rafm.train.checkpoint import Checkpoint, NoCheckpoint
from rafm.train.dispatch import run_recipe
from rafm.train.events import Begun, Cut, Distilled, EpochFinished, Finished, PieceFinished, Resumed
from rafm.train.gibbs import engine as gibbs_engine
from rafm.train.gibbs import run as gibbs_run
from rafm.train.resources import Resources

NOISE = 0.5


class Killed(BaseException):
    """Ends a run without a word, as kill -9 does."""


@pytest.fixture(scope="module")
def ratings():
    """Return training and validation rows, and rows without noise to test on."""
    (data, test), rng = planted("regression", n_rows=1500), np.random.default_rng(0)
    noisy = [changed_rows(rows, labels=rows.labels + rng.normal(0, NOISE, rows.n_rows)) for rows in (data, test)]
    return source_of(noisy[0]), noisy[1], test


def source_of(rows):
    users = Fields.of_ranges(("user", "item"), (0, 30, 50))
    return InMemory(rows, users)


def options(**chosen):
    return resolve(**{"task": "regression", "model": "fm", "ranks": 2, "optimizer": "gibbs", "n_epochs": 40, **chosen})


def events_of(data, valid, checkpoint=None, **chosen):
    return list(run_recipe(data, options(**chosen), valid, Resources(checkpoint=checkpoint or NoCheckpoint())))


def model_of(events):
    assert isinstance(events[-1], Finished)
    return events[-1].model


def bytes_of(model):
    arrays = model.parameters.arrays() | ({} if model.samples is None else model.samples.arrays())
    return {name: array.tobytes() for name, array in arrays.items()} | {"history": model.history}


def rmse(model, rows):
    return float(np.sqrt(np.mean((model.predict(rows) - rows.labels) ** 2)))


# The model


def test_one_model_comes_as_close_to_the_truth_as_the_mean_of_samples(ratings):
    data, valid, test = ratings
    events = events_of(data, valid, n_epochs=60)
    model = model_of(events)
    stepped = model_of(list(run_recipe(data, resolve(task="regression", model="fm", ranks=2, n_epochs=60), valid)))
    assert rmse(model, test) < 0.8 * rmse(stepped, test)
    assert model.options["optimizer"] == "gibbs"
    assert model.n_parameters == 1 + 50 * 3
    distilled = events[-2]
    assert isinstance(distilled, Distilled)
    assert distilled.metrics["rmse"] == pytest.approx(rmse(model, valid), rel=1e-4)
    assert distilled.metrics["rmse"] < 1.01 * model.history[-1]["valid_rmse"]


def test_distillation_comes_closer_to_the_mean_of_samples_than_their_mean_does(ratings):
    distilled = events_of(*ratings[:2])[-2]
    assert distilled.samples == 34  # 40 sweeps without the first 15 percent
    assert distilled.after < 0.6 * distilled.before
    assert distilled.record()["after"] == distilled.after


def test_the_precision_of_the_prior_is_the_best_one_for_the_validation_rows(ratings, monkeypatch):
    chosen, tried = events_of(*ratings[:2])[-2], {}
    for prior_precision in gibbs_run.PRIOR_PRECISIONS:
        monkeypatch.setattr(gibbs_run, "PRIOR_PRECISIONS", (prior_precision,))
        tried[prior_precision] = events_of(*ratings[:2])[-2].metrics["rmse"]
    assert len({*tried.values()}) == 3
    assert (chosen.prior_precision, chosen.metrics["rmse"]) == min(tried.items(), key=lambda item: item[1])


def test_large_labels_and_values_are_scaled(ratings):
    data, valid, test = ratings
    large = [changed_rows(rows, labels=100 * rows.labels, values=64 * rows.values) for rows in (data.rows, valid, test)]
    assert rmse(model_of(events_of(source_of(large[0]), large[1])), large[2]) == pytest.approx(
        100 * rmse(model_of(events_of(data, valid)), test), rel=0.3
    )


@pytest.mark.parametrize(("family", "ranks"), [("lr", None), ("difacto", (1, 2))])
def test_other_families_are_sampled_too(family, ratings, ranks):
    data, valid, test = ratings
    by_count = {"rank_scale": 0.035} if family == "difacto" else {}
    model = model_of(events_of(data, valid, model=family, ranks=ranks, **by_count))
    assert model.plan.family == family
    if family == "difacto":
        assert 0 < model.plan.sizes[2] < model.plan.sizes[1]
        assert rmse(model, test) < 0.6 * test.labels.std()


def test_without_validation_rows_the_noise_is_drawn(ratings):
    data, _, test = ratings
    events = events_of(data, None)
    assert rmse(model_of(events), test) < 0.3 * test.labels.std()
    assert events[-2].metrics == {}
    assert all("valid_rmse" not in entry for entry in model_of(events).history)


def test_row_weights_count(ratings):
    data, valid, test = ratings
    weights = np.ones(data.rows.n_rows)
    weights[::2] = 0
    spoiled = np.where(weights > 0, data.rows.labels, 9.0)
    rows = changed_rows(data.rows, labels=spoiled, weights=weights)
    assert rmse(model_of(events_of(source_of(rows), valid)), test) < 0.4 * test.labels.std()


def test_priors_stay_as_they_are_while_the_first_weights_move(ratings):
    """Weights start at 0: their lambda would grow at once and keep them there."""
    data, valid, _ = ratings
    rows = next(iter(gibbs_run.Blocks(data, model_of(events_of(data, valid, n_epochs=1)).numbering, np.ones(50))))
    plan = model_of(events_of(data, valid, n_epochs=1)).plan
    engine = gibbs_engine.GibbsEngine(rows, plan, None, seed=0, bias=0.0)
    for sweep in range(gibbs_engine.FIXED_SWEEPS):
        engine.sample(0, 3, sweep, False)
        assert set(engine.chain.hyper[:, 0, :, 0].ravel()) == {10.0}  # 5 for each of the two features of a row
        assert set(engine.chain.hyper[:, 1:, :, 0].ravel()) == {40.0}
    assert np.abs(engine.chain.numbers[0]).max() > 0
    engine.sample(0, 3, gibbs_engine.FIXED_SWEEPS, False)
    assert len(np.unique(engine.chain.hyper[0, :, :, 0])) > 2


# The run


def test_events_tell_of_every_sweep(ratings):
    data, valid, _ = ratings
    events = events_of(data, valid, n_epochs=12)
    epochs = [event for event in events if isinstance(event, EpochFinished)]
    assert [event.epoch for event in epochs] == list(range(1, 13))
    assert [event.entry() for event in epochs] == model_of(events).history
    assert model_of(events).best_epoch == 12
    assert events[-1].reason == "epochs"


def test_pieces_tell_how_long_all_sweeps_will_take(ratings, monkeypatch):
    monkeypatch.setattr(gibbs_engine, "PIECE_WORK", 1)
    monkeypatch.setattr(gibbs_run, "SHOWN_SECONDS", -1.0)
    events = events_of(*ratings[:2], n_epochs=3)
    pieces = [event for event in events if isinstance(event, PieceFinished)]
    assert [(event.epoch, event.rows) for event in pieces] == [(k, rows) for k in (1, 2, 3) for rows in (333, 666)]
    assert all(event.seconds_left > 0 for event in pieces)


def test_pieces_do_not_change_the_model(ratings, monkeypatch):
    expected = bytes_of(model_of(events_of(*ratings[:2], n_epochs=5)))
    monkeypatch.setattr(gibbs_engine, "PIECE_WORK", 1)
    assert bytes_of(model_of(events_of(*ratings[:2], n_epochs=5))) == expected


def test_patience_counts_tens_of_sweeps(ratings):
    data, valid, _ = ratings
    shuffled = changed_rows(valid, labels=np.random.default_rng(0).permutation(valid.labels))
    events = events_of(data, shuffled, n_epochs=200, patience=1)
    history = model_of(events).history
    best = min(history[30:], key=lambda entry: entry["valid_rmse"])["epoch"]  # after burn-in
    assert events[-1].reason == "patience"
    assert len(history) == best + 10


def test_a_run_out_of_time_keeps_what_it_has(ratings):
    events = events_of(*ratings[:2], n_epochs=100_000, patience=None, max_seconds=0.5)
    assert events[-1].reason == "time"
    assert np.isfinite(model_of(events).parameters.weights).all()


def test_a_run_stopped_during_burn_in_leaves_the_last_sample(ratings):
    events = events_of(*ratings[:2], n_epochs=100_000, max_seconds=1e-9)
    assert events[-2].samples == 0
    assert np.isfinite(model_of(events).parameters.weights).all()


def test_a_run_killed_after_every_event_ends_with_the_same_model(ratings, monkeypatch, tmp_path):
    monkeypatch.setattr(gibbs_engine, "PIECE_WORK", 1)
    monkeypatch.setattr(gibbs_run, "SHOWN_SECONDS", -1.0)
    data, valid, _ = ratings
    chosen = {"n_epochs": 8, "keep_samples": 3}
    expected, resumed = bytes_of(model_of(events_of(data, valid, **chosen))), []
    for _ in range(100):
        events = []
        try:
            with Checkpoint(tmp_path, seconds=0) as checkpoint:
                for event in run_recipe(data, options(**chosen), valid, Resources(checkpoint=checkpoint)):
                    events.append(event)
                    if len(events) == 9:
                        raise Killed
        except Killed:
            pass
        resumed += [event for event in events if isinstance(event, Resumed)]
        if isinstance(events[-1], Finished):
            break
    assert any(0 < event.rows < 1000 for event in resumed)
    assert bytes_of(model_of(events)) == expected
    with Checkpoint(tmp_path, seconds=0) as checkpoint, pytest.raises(CheckpointError, match="seed was 0, now 1"):
        list(run_recipe(data, options(**chosen, seed=1), valid, Resources(checkpoint=checkpoint)))


def test_threads_change_nothing_but_the_time(ratings, monkeypatch):
    monkeypatch.setattr("rafm.plan.design.PART_ROWS", 100)
    monkeypatch.setattr("rafm.plan.design.PART_SHARE", 1)
    monkeypatch.setattr("rafm.train.gibbs.engine.SCORING_ROWS", 30)
    found = [bytes_of(model_of(events_of(*ratings[:2], threads=threads))) for threads in (1, 2, 4)]
    assert found[0] == found[1] == found[2]


def test_values_out_of_range_are_a_divergence(ratings):
    data, valid, _ = ratings
    values = valid.values.copy()
    values[0], values[1] = 3e38, 3e38
    with pytest.raises(DivergenceError, match=r"validation loss of epoch 1 is not finite\. Check for outliers"):
        events_of(data, changed_rows(valid, values=values), n_epochs=5)


# What is sampled if only the sampler, or its samples, are asked for


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"optimizer": "gibbs"}, ("fm", (8,))),
        ({"keep_samples": 20}, ("fm", (8,))),
        ({"optimizer": optimizer_for("gibbs"), "ranks": 4}, ("fm", (4,))),
        ({"optimizer": "gibbs", "ranks": "4,8"}, ("difacto", (4, 8))),
        ({"optimizer": "gibbs", "ranks": 4, "model": "difacto"}, ("difacto", (4,))),
    ],
)
def test_the_sampler_chooses_the_family_that_it_can_train(given, expected):
    chosen = resolve(task="regression", **given)
    assert (chosen.model, chosen.ranks, chosen.optimizer.is_sampler) == (*expected, True)


# Refusals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "rafm"}, "cannot train model 'rafm', only 'fm', 'difacto', 'lr'. Use model='difacto'"),
        ({"model": "mrma"}, "cannot train model 'mrma'"),
        ({"loss": "huber"}, "requires loss='squared', found 'huber'"),
        ({"learning_rate": 0.1}, "learning_rate has no effect with optimizer='gibbs'"),
        ({"l2": 0.1}, "l2 has no effect"),
        ({"l2_weights": 0.1}, "l2_weights has no effect"),
        ({"n_epochs": 0}, "n_epochs must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_sampled_is_refused_with_the_way_out(given, message):
    with pytest.raises(ConfigError, match=message):
        options(**{"ranks": None, **given})


def test_sweeps_have_a_default_of_their_own():
    assert options(n_epochs=None).n_epochs == 200
    assert resolve(task="regression").n_epochs == 30


def test_rows_that_are_not_in_memory_are_refused_with_the_bytes_they_need(ratings):
    spilled = SpilledRows([ratings[0].rows], SpillOptions(megabytes=0))
    with pytest.raises(ResourceLimitError, match="1000 rows and 2000 nonzeros take 82,400 bytes"):
        events_of(spilled, None)


def test_rows_on_disk_are_read_if_they_fit_into_memory(ratings, tmp_path):
    write_rows(tmp_path / "t.svm", ratings[0].rows)
    assert run("convert", tmp_path / "t.svm", tmp_path / "t.arrow", "--task", "regression").code == 0
    chosen = ("--task", "regression", "--model", "fm", "--ranks", "2", "--optimizer", "gibbs", "--epochs", "3")
    for name in ("t.svm", "t.arrow"):
        ran = run("train", tmp_path / name, *chosen, "--out", tmp_path / f"{name}.rafm")
        assert ran.code == 0, ran.err
    assert (tmp_path / "t.svm.rafm").read_bytes() == (tmp_path / "t.arrow.rafm").read_bytes()


def test_rows_of_several_blocks_are_joined(ratings, monkeypatch):
    monkeypatch.setattr("rafm.rows.blocks.BLOCK_ROWS", 300)
    blocks = SpilledRows([ratings[0].rows], SpillOptions(megabytes=100))
    assert blocks.n_blocks > 1
    whole = model_of(events_of(InMemory(ratings[0].rows), None, n_epochs=3))
    assert bytes_of(model_of(events_of(blocks, None, n_epochs=3))) == bytes_of(whole)


# Starting from a model


def test_sampling_begins_at_the_parameters_of_a_model(ratings, monkeypatch):
    """Without any sweep the last sample is what the run began with."""
    data, valid, test = ratings
    large = [changed_rows(rows, labels=16 * rows.labels, values=2 * rows.values) for rows in (data.rows, valid, test)]
    start = model_of(
        list(
            run_recipe(
                source_of(large[0]), resolve(task="regression", model="fm", ranks=3, field_weights="off"), large[1]
            )
        )
    )
    monkeypatch.setattr(gibbs_run.GibbsRun, "is_over", lambda run: True)
    same = model_of(list(run_recipe(source_of(large[0]), options(ranks=3), large[1], start=start)))
    np.testing.assert_allclose(same.predict(large[2]), start.predict(large[2]), rtol=1e-4)
    few = changed_rows(large[0], indices=np.where(large[0].indices == 3, 4, large[0].indices))
    events = list(
        run_recipe(source_of(large[0]), options(ranks=1), large[1], start=model_of(events_of(source_of(few), None)))
    )
    assert [(event.features, event.new) for event in events if isinstance(event, Begun)] == [(49, 1)]


def test_a_chain_that_begins_at_a_good_model_is_good_at_once(ratings):
    data, valid, test = ratings
    start = model_of(events_of(data, valid))
    found = [model_of(list(run_recipe(data, options(n_epochs=4), valid, start=begin))) for begin in (None, start)]
    assert rmse(found[1], test) < 0.6 * rmse(found[0], test)


def test_models_of_another_form_are_no_start(ratings):
    data, valid, _ = ratings
    weighted = model_of(list(run_recipe(data, resolve(task="regression", model="fm", ranks=2, n_epochs=1), valid)))
    with pytest.raises(ConfigError, match="cannot begin from a model that has field weights"):
        list(run_recipe(data, options(), valid, start=weighted))
    nested = model_of(list(run_recipe(data, resolve(task="regression", ranks=(1, 2), n_epochs=1), valid)))
    with pytest.raises(ConfigError, match="that has the form of 'rafm'"):
        list(run_recipe(data, options(), valid, start=nested))


# Measured ranks


def test_samples_are_distilled_into_vectors_of_measured_lengths(ratings, tmp_path):
    data, valid, _ = ratings
    chosen = {"model": "rafm", "ranks": "auto", "max_parameters": 110}
    with Checkpoint(tmp_path, seconds=0) as checkpoint:
        events = events_of(data, valid, checkpoint, **chosen)
    large, cut, small = (event for event in events if isinstance(event, Distilled | Cut))
    model = model_of(events)
    assert 100 < model.n_parameters <= 110
    assert model.plan.family == "difacto"
    assert cut.before == 1 + 50 * 9
    assert cut.parameters == model.n_parameters
    assert small.after < small.before
    scores = np.array([part.predict(data.rows) for part in (model, model_of(events_of(data, valid, ranks=8)))])
    assert np.sqrt(np.mean((scores[0] - scores[1]) ** 2)) == pytest.approx(small.after, abs=0.2 * large.metrics["rmse"])
    assert small.metrics["rmse"] == pytest.approx(rmse(model, valid), rel=1e-4)
    assert [entry["epoch"] for entry in model.history] == list(range(1, 41))
    with Checkpoint(tmp_path, seconds=0) as checkpoint:  # resumed after the last sweep
        assert bytes_of(model_of(events_of(data, valid, checkpoint, **chosen))) == bytes_of(model)


def test_measured_lengths_need_validation_rows_and_leave_no_samples(ratings):
    with pytest.raises(ConfigError, match="needs validation rows"):
        events_of(ratings[0], None, model="rafm", ranks="auto")
    with pytest.raises(ConfigError, match="keep_samples cannot be combined with ranks"):
        options(model="rafm", ranks="auto", keep_samples=3)


# Samples that are kept


def test_kept_samples_are_models_whose_predictions_spread_around_the_distilled_one(ratings, tmp_path):
    data, valid, test = ratings
    large = [changed_rows(rows, labels=16 * rows.labels) for rows in (data.rows, valid)]
    model = model_of(events_of(source_of(large[0]), large[1], keep_samples=5))
    save(tmp_path / "m.rafm", Saved(model, None, 0))
    found = load(tmp_path / "m.rafm").model_
    assert found.samples.n_samples == 5
    X, scores = matrix(test).toarray()[:, found.numbering.ids], []
    for number in range(5):
        (block,) = found.samples.factors
        numbers = np.concatenate([found.samples.weights[number][None], block[number].T]).astype(float)
        scores.append(naive.fm_scores(X, float(found.samples.bias[number]), numbers))
    np.testing.assert_allclose(found.spread(test), np.std(scores, axis=0), rtol=1e-3)
    assert np.sqrt(np.mean((np.mean(scores, axis=0) - found.predict(test)) ** 2)) < 16 * 0.2
    assert 0.3 < np.sqrt(np.mean(((16 * test.labels - found.predict(test)) / found.spread(test)) ** 2)) < 3


def test_few_rows_of_a_feature_leave_its_predictions_open(ratings):
    data, valid, test = ratings
    first = data.rows.indices.reshape(-1, 2)[:, 0]
    weights = np.where(first == 3, 0.01, 1.0)
    model = model_of(events_of(source_of(changed_rows(data.rows, weights=weights)), valid, keep_samples=20))
    is_rare = test.indices.reshape(-1, 2)[:, 0] == 3
    assert model.spread(test)[is_rare].mean() > 2 * model.spread(test)[~is_rare].mean()


@pytest.mark.parametrize(("n_epochs", "wanted", "found"), [(10, 3, 3), (10, 100, 9), (1, 3, 1)])
def test_no_more_samples_are_kept_than_there_are(found, n_epochs, ratings, wanted):
    assert model_of(events_of(*ratings[:2], n_epochs=n_epochs, keep_samples=wanted)).samples.n_samples == found


def test_an_estimator_returns_deviations_if_it_kept_samples(ratings):
    data, valid, test = ratings
    fitted = RaFMRegressor(2, model="fm", optimizer="gibbs", n_epochs=10, keep_samples=4)
    fitted.fit(matrix(data.rows), data.rows.labels, eval_set=(matrix(valid), valid.labels))
    mean, deviation = fitted.predict(matrix(test), return_std=True)
    np.testing.assert_array_equal(mean, fitted.predict(matrix(test)))
    np.testing.assert_array_equal(deviation, fitted.model_.spread(test))
    assert fitted.compress(max_parameters=80).model_.samples is None
    with pytest.raises(ConfigError, match="return_std needs sampled models: train with optimizer='gibbs'"):
        RaFMRegressor(2, model="fm").fit(matrix(valid), valid.labels).predict(matrix(test), return_std=True)
    with pytest.raises(ConfigError, match="keep_samples requires optimizer='gibbs'"):
        RaFMRegressor(2, model="fm", keep_samples=4).fit(matrix(valid), valid.labels)


# Estimators and commands


def matrix(rows):
    return csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.n_rows, 50))


def test_an_estimator_samples_saves_and_loads(ratings, tmp_path):
    data, valid, test = ratings
    fields = ["user"] * 30 + ["item"] * 20
    fitted = RaFMRegressor(2, model="fm", optimizer="gibbs", n_epochs=40, fields=fields)
    fitted.fit(matrix(data.rows), data.rows.labels, eval_set=(matrix(valid), valid.labels))
    expected = model_of(events_of(data, valid))
    np.testing.assert_array_equal(fitted.predict(matrix(test)), expected.predict(test))
    assert len(fitted.history_) == 40
    fitted.save(tmp_path / "m.rafm")
    np.testing.assert_array_equal(load(tmp_path / "m.rafm").predict(matrix(test)), fitted.predict(matrix(test)))
    stepped = RaFMRegressor(2, model="fm", n_epochs=1).fit(matrix(valid), valid.labels).set_params(optimizer="gibbs")
    with pytest.raises(ConfigError, match=r"cannot continue from a model.* optimizer='adagrad'"):
        stepped.partial_fit(matrix(valid), valid.labels)
    with pytest.raises(ConfigError, match="use fit"):
        RaFMRegressor(2, model="fm", optimizer="gibbs").partial_fit(matrix(valid), valid.labels)


def write_rows(path, rows):
    lines = zip(rows.labels, rows.indices.reshape(-1, 2))
    path.write_text("".join(f"{label:.4f} {a}:1 {b}:1\n" for label, (a, b) in lines))


def test_the_command_trains_evaluates_and_predicts(ratings, tmp_path):
    data, valid, test = ratings
    for name, rows in (("train", data.rows), ("valid", valid), ("test", test)):
        write_rows(tmp_path / f"{name}.svm", rows)
    (tmp_path / "fields.tsv").write_text("".join(f"{i}\t{'user' if i < 30 else 'item'}\n" for i in range(50)))
    common = ("train", tmp_path / "train.svm", "--valid", tmp_path / "valid.svm", "--task", "regression")
    chosen = ("--out", tmp_path / "m.rafm", "--optimizer", "gibbs", "--fields", tmp_path / "fields.tsv")
    ran = run(*common, *chosen, "--model", "fm", "--ranks", "2", "--epochs", "30", "--seed", "4")
    assert ran.code == 0, ran.err
    assert "distilled 26 samples into one model" in ran.out
    judged = run("evaluate", tmp_path / "m.rafm", tmp_path / "test.svm", "--json").json()
    assert judged["rmse"] < 0.4 * test.labels.std()
    assert len(run("predict", tmp_path / "m.rafm", tmp_path / "test.svm").out.splitlines()) == test.n_rows
    begun = run(*common[:4], *chosen[:4], "--resume-from", tmp_path / "m.rafm", "--epochs", "7")
    assert begun.code == 0, begun.err
    assert "sampling starts from a model with 50 features; 0 new\n" in begun.out
    assert run("evaluate", tmp_path / "m.rafm", tmp_path / "test.svm", "--json").json()["rmse"] < judged["rmse"] * 1.3
    more = run(*common[:2], "--out", tmp_path / "n.rafm", "--resume-from", tmp_path / "m.rafm")
    assert "continuing with adagrad" in more.out
    assert "--optimizer gibbs cannot train --model rafm" in run(*common, *chosen, "--model", "rafm").error()
    assert "--keep-state" in run(*common, *chosen, "--model", "fm", "--keep-state").error()


def test_saving_and_loading_keeps_the_options(ratings, tmp_path):
    model = model_of(events_of(*ratings[:2], n_epochs=2))
    save(tmp_path / "m.rafm", Saved(model, None, 0))
    assert load(tmp_path / "m.rafm").get_params()["optimizer"] == "gibbs"


def test_the_sampler_is_not_even_imported_by_other_runs(tmp_path):
    (tmp_path / "t.svm").write_text("1 0:1 1:1\n0 0:1 2:1\n" * 20)
    rows = f"training_rows({str(tmp_path / 't.svm')!r}, ReadOptions('binary'))[0]"
    code = (
        "import sys; from rafm.train.dispatch import train_model; from rafm.options import resolve;"
        "from rafm.read.open import training_rows, ReadOptions;"
        f"train_model({rows}, resolve(task='binary', n_epochs=1));"
        "assert not any(name.startswith('rafm.') and ('gibbs' in name or 'philox' in name) for name in sys.modules)"
    )
    run_python("-c", code)


@pytest.mark.slow
def test_two_kills_later_the_model_has_the_same_bytes(ratings, tmp_path):
    for name, rows in (("train", ratings[0].rows), ("valid", ratings[1])):
        write_rows(tmp_path / f"{name}.svm", rows)

    def command(out, *more):
        files = ("train", tmp_path / "train.svm", "--valid", tmp_path / "valid.svm", "--out", tmp_path / out)
        chosen = ("--task", "regression", "--model", "fm", "--ranks", "8", "--optimizer", "gibbs")
        return *files, *chosen, "--epochs", "100", "--patience", "99", *more

    assert run(*command("whole.rafm")).code == 0
    resuming, kills = command("m.rafm", "--checkpoint", tmp_path / "states", "--checkpoint-seconds", "0"), 0
    for _ in range(2):
        before = newest(tmp_path / "states")
        process = start(*resuming, stdin=subprocess.DEVNULL)
        while process.poll() is None and newest(tmp_path / "states") == before:
            time.sleep(0.01)
        process.kill()
        kills += finish(process).code == -signal.SIGKILL
    assert kills == 2
    ran = run(*resuming)
    assert f"resuming from {tmp_path / 'states'}: " in ran.out
    assert (tmp_path / "m.rafm").read_bytes() == (tmp_path / "whole.rafm").read_bytes()


def newest(folder):
    """Return the number of the newest state in a folder, 0 if there is none."""
    return max((int(path.stem.split("-")[1]) for path in folder.glob("checkpoint-*.rafm")), default=0)
