"""The commands as scripts use them: files in, files and lines out, JSON where asked, the same bytes every time."""

import gzip
import json

import numpy as np
import pytest
from commands import rows_of_pairs, run, run_alone, start
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error, roc_auc_score
from worlds import one_hot

import rafm
from rafm.model.file import load

ALL_ROWS = ("--valid-share", "0")  # nothing is held out, which takes a tenth of the time
FAMILIES = {"rafm": "2,5", "fm": "4", "lr": "4", "difacto": "2,5", "mrma": "2,3"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training and validation rows, and a model of them."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "train.svm").write_text(rows_of_pairs(1500))
    (folder / "valid.svm").write_text(rows_of_pairs(400, seed=1))
    (folder / "ratings.svm").write_text(rows_of_pairs(1500, labels=("1.5", "4.5")))
    train(folder, folder / "m.rafm", "--valid", folder / "valid.svm")
    train(folder, folder / "r.rafm", "--task", "regression", *ALL_ROWS, data="ratings.svm")
    return folder


def train(folder, out, *more, data="train.svm"):
    ran = run("train", folder / data, "--out", out, "--ranks", "2,5", "--l2", "0", "--epochs", "6", *more)
    assert ran.code == 0, ran.err
    return ran


def predictions(folder, model="m.rafm", data="valid.svm"):
    return np.array(run("predict", folder / model, folder / data).out.split(), float)


# Train


def test_train_shows_plan_and_epochs_and_saves_the_model(folder, tmp_path):
    ran = train(folder, tmp_path / "m.rafm", "--valid", folder / "valid.svm", "--learning-rate", "0.2")
    lines = ran.out.splitlines()
    assert lines[0].startswith("level  rank  features")
    header = next(i for i, line in enumerate(lines) if line.startswith("epoch"))
    table = [line.split() for line in lines[header + 1 : -2]]  # what was trained, and where it is, follow
    assert [int(row[0]) for row in table] == list(range(len(table)))
    start, *table = table
    assert float(start[2]) == pytest.approx(np.log(2), abs=0.02)  # of a constant
    model = load(tmp_path / "m.rafm").model
    assert [float(row[2]) for row in table] == [round(entry["valid_log_loss"], 5) for entry in model.history]
    assert [row[0] for row in table if row[-1] == "best"][-1] == str(model.best_epoch)
    size = (tmp_path / "m.rafm").stat().st_size
    assert lines[-1] == f"saved {tmp_path / 'm.rafm'}: {model.n_parameters} parameters, {size} bytes"
    assert ran.err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["m.rafm"]


@pytest.mark.parametrize("family", FAMILIES)
def test_train_json_ends_with_one_line_that_tells_what_the_file_holds(folder, tmp_path, family):
    out = tmp_path / "m.rafm"
    more = ("--model", family, "--ranks", FAMILIES[family], "--valid", folder / "valid.svm", "--json")
    ran = train(folder, out, *more)
    assert ran.out.count("\n") == 1
    assert ran.err.startswith("level  rank")  # progress goes elsewhere, so that scripts can read the line alone
    found, model = ran.json(), load(out).model
    assert found["model"] == model.plan.family == family
    assert found["task"] == "binary"
    assert found["parameters"] == model.n_parameters
    assert found["model_bytes"] == out.stat().st_size
    assert found["epochs"] == len(found["history"]) == len(model.history)
    assert found["history"] == model.history
    assert found["best_epoch"] == model.best_epoch
    assert found["seconds"] >= 0


def test_only_models_that_see_pairs_learn_what_the_rows_say(folder, tmp_path):
    losses = {}
    for family, ranks in FAMILIES.items():
        ran = train(
            folder, tmp_path / family, "--model", family, "--ranks", ranks, "--valid", folder / "valid.svm", "--json"
        )
        losses[family] = min(entry["valid_log_loss"] for entry in ran.json()["history"])
    assert losses.pop("lr") > 0.65
    assert max(losses.values()) < 0.35  # 5 % of the labels are wrong: 0.199 is the best possible


def test_options_reach_the_training_and_are_kept_in_the_file(folder, tmp_path):
    options = {
        "--optimizer": "sgd",
        "--update": "algorithm1",
        "--learning-rate": "0.01",
        "--l2": "0.25,0.5",
        "--dependent-weight": "0.7",
        "--l2-weights": "0.5",
        "--epochs": "2",
        "--patience": "7",
        "--seed": "11",
    }
    train(folder, tmp_path / "m.rafm", *(part for pair in options.items() for part in pair))
    found = load(tmp_path / "m.rafm").model.options
    assert found == {
        "rank_scale": 1.0,
        "thresholds": None,
        "optimizer": "sgd",
        "batch_size": 16,
        "update": "algorithm1",
        "learning_rate": 0.01,
        "l2": [0.25, 0.5],
        "dependent_weight": 0.7,
        "l2_weights": 0.5,
        "l1": 0.0,
        "l1_weights": 0.0,
        "init_scale": 0.01,
        "averaging": True,
        "rate_drops": 0,
        "n_epochs": 2,
        "patience": 7,
        "metric": "log_loss",
        "negative_rate": 1.0,
        "seed": 11,
        "validation_fraction": 0.1,
    }


def test_thresholds_decide_levels_by_counts(folder, tmp_path):
    train(folder, tmp_path / "m.rafm", "--thresholds", "140", *ALL_ROWS)
    model = load(tmp_path / "m.rafm").model
    np.testing.assert_array_equal(model.plan.levels(), 1 + (model.counts >= 140))
    assert {1, 2} == set(model.plan.levels())


def test_the_command_and_the_estimator_write_the_same_numbers(folder, tmp_path):
    train(folder, tmp_path / "cli.rafm")
    rows = [line.split() for line in (folder / "train.svm").read_text().splitlines()]
    X = np.zeros((len(rows), 22), np.float32)
    for place, (_, *entries) in zip(X, rows):
        place[[int(entry.split(":")[0]) for entry in entries]] = 1
    y = [int(row[0]) for row in rows]
    rafm.RaFMClassifier((2, 5), l2=0, n_epochs=6).fit(X, y).save(tmp_path / "api.rafm")
    left, right = (load(tmp_path / name).model for name in ("cli.rafm", "api.rafm"))
    assert left.plan == right.plan
    for a, b in zip(left.parameters.factors, right.parameters.factors):
        np.testing.assert_array_equal(a, b)


def test_the_same_command_writes_the_same_bytes_whatever_the_threads(folder, tmp_path):
    for name, more in {"a": (), "b": ("--threads", "2"), "c": ("--seed", "1")}.items():
        train(folder, tmp_path / name, *more)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_another_process_folder_and_hash_seed_write_the_same_bytes(folder, tmp_path):
    train(folder, tmp_path / "here.rafm")
    arguments = ("train", folder / "train.svm", "--out", "there.rafm", "--ranks", "2,5", "--l2", "0", "--epochs", "6")
    ran = run_alone(*arguments, cwd=tmp_path, environment={"PYTHONHASHSEED": "99", "TZ": "Asia/Tokyo", "LC_ALL": "C"})
    assert ran.code == 0, ran.err
    assert (tmp_path / "there.rafm").read_bytes() == (tmp_path / "here.rafm").read_bytes()


def test_gzip_and_the_standard_input_are_read_as_the_plain_file_is(folder, tmp_path):
    raw = (folder / "train.svm").read_bytes()
    (tmp_path / "odd name.txt").write_bytes(gzip.compress(raw))
    train(folder, tmp_path / "plain.rafm", *ALL_ROWS)
    train(tmp_path, tmp_path / "gzip.rafm", *ALL_ROWS, data="odd name.txt")
    arguments = ("--out", tmp_path / "stdin.rafm", "--ranks", "2,5", "--l2", "0", "--epochs", "6", *ALL_ROWS)
    assert run("train", "-", *arguments, stdin=raw).code == 0
    files = [(tmp_path / f"{name}.rafm").read_bytes() for name in ("plain", "gzip", "stdin")]
    assert files[0] == files[1] == files[2]


def test_an_old_model_is_replaced(folder, tmp_path):
    (tmp_path / "m.rafm").write_bytes(b"old")
    train(folder, tmp_path / "m.rafm", *ALL_ROWS)
    assert load(tmp_path / "m.rafm").model.plan.family == "rafm"


def test_validation_rows_may_have_ids_that_training_has_not(folder, tmp_path):  # case 51
    (tmp_path / "valid.svm").write_text("1 0:1 12:1\n0 999999:1\n")
    train(folder, tmp_path / "m.rafm", "--valid", tmp_path / "valid.svm")
    assert load(tmp_path / "m.rafm").model.numbering.n_inputs == 22


# Evaluate and predict


def test_evaluate_tells_what_scikit_learn_finds_in_the_predictions(folder):
    labels = [int(line[0]) for line in (folder / "valid.svm").read_text().splitlines()]
    found, predicted = run("evaluate", folder / "m.rafm", folder / "valid.svm", "--json").json(), predictions(folder)
    expected = {"rows": 400, "log_loss": log_loss(labels, predicted), "auc": roc_auc_score(labels, predicted)}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6)  # nine digits are printed
    assert list(found)[:3] == ["rows", "log_loss", "auc"]
    assert found["mean_prediction"] == pytest.approx(predicted.mean(), rel=1e-6)


def test_evaluate_tells_errors_of_ratings(folder):
    labels = [float(line.split()[0]) for line in (folder / "ratings.svm").read_text().splitlines()]
    found = run("evaluate", folder / "r.rafm", folder / "ratings.svm", "--json").json()
    predicted = predictions(folder, "r.rafm", "ratings.svm")
    rmse = mean_squared_error(labels, predicted) ** 0.5
    expected = {"rows": 1500, "rmse": rmse, "mae": mean_absolute_error(labels, predicted)}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    assert list(found) == ["rows", "rmse", "mae", "mean_label", "mean_prediction"]


def test_evaluate_without_json_prints_the_same_numbers_by_name(folder):
    found = run("evaluate", folder / "m.rafm", folder / "valid.svm", "--json").json()
    metrics, table = run("evaluate", folder / "m.rafm", folder / "valid.svm").out.split("\n\n")
    reliability = found.pop("reliability")
    lines = dict(line.split() for line in metrics.splitlines())
    assert lines.pop("rows") == "400" == str(found.pop("rows"))
    assert lines == {name: f"{value:.6f}" for name, value in found.items()}
    rows = [line.split() for line in table.splitlines()[1:]]
    assert rows == [
        [f"{line['weight']:.0f}", f"{line['mean_prediction']:.6f}", f"{line['mean_label']:.6f}"] for line in reliability
    ]


def test_predict_prints_one_line_per_row_in_input_order(folder, tmp_path):
    lines = (folder / "valid.svm").read_text().splitlines(keepends=True)
    expected = run("predict", folder / "m.rafm", folder / "valid.svm").out.splitlines()
    assert len(expected) == len(lines)
    assert all(0 < float(line) < 1 for line in expected)
    (tmp_path / "back.svm").write_text("".join(lines[::-1]))
    assert run("predict", folder / "m.rafm", tmp_path / "back.svm").out.splitlines() == expected[::-1]


def test_predictions_can_be_read_back_to_the_last_bit_of_a_float32(folder):
    model = load(folder / "r.rafm").model
    lines = (folder / "ratings.svm").read_text().splitlines()
    rows = [[int(entry.split(":")[0]) for entry in line.split()[1:]] for line in lines]
    expected = model.scores(one_hot(np.array(rows), np.zeros(len(rows))))
    np.testing.assert_array_equal(predictions(folder, "r.rafm", "ratings.svm").astype(np.float32), expected)


def test_predict_reads_the_standard_input_and_gzip(folder, tmp_path):
    expected = run("predict", folder / "m.rafm", folder / "valid.svm").out
    raw = (folder / "valid.svm").read_bytes()
    (tmp_path / "v.gz").write_bytes(gzip.compress(raw))
    assert run("predict", folder / "m.rafm", "-", stdin=raw).out == expected
    assert run("predict", folder / "m.rafm", tmp_path / "v.gz").out == expected


def test_predict_writes_to_a_file_what_it_would_print(folder, tmp_path):
    ran = run("predict", folder / "m.rafm", folder / "valid.svm", "--out", tmp_path / "p.txt")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "p.txt").read_text() == run("predict", folder / "m.rafm", folder / "valid.svm").out
    assert [path.name for path in tmp_path.iterdir()] == ["p.txt"]


def test_rows_of_a_label_alone_or_of_unknown_ids_score_the_bias(folder):  # cases 10 and 51
    found = run("predict", folder / "m.rafm", "-", stdin=b"1\n0 77777:1 88888:2\n0 3:0\n").out.split()
    bias = float(load(folder / "m.rafm").model.parameters.bias[0])
    assert [float(line) for line in found] == pytest.approx([1 / (1 + np.exp(-bias))] * 3, rel=1e-8)


def test_predict_of_no_rows_prints_no_predictions(folder):  # case 8
    ran = run("predict", folder / "m.rafm", "-", stdin=b"")
    assert (ran.code, ran.out, ran.err) == (0, "", "note: stdin: 0 rows\n")


def test_labels_of_rows_to_predict_do_not_matter(folder, tmp_path):
    raw = (folder / "valid.svm").read_text()
    ones = "\n".join("1" + line[1:] for line in raw.splitlines())
    assert (
        run("predict", folder / "m.rafm", "-", stdin=ones.encode()).out
        == run("predict", folder / "m.rafm", folder / "valid.svm").out
    )


def test_a_reader_that_leaves_early_is_no_error(folder, tmp_path):
    (tmp_path / "many.svm").write_text(rows_of_pairs(20_000))
    process = start("predict", folder / "m.rafm", tmp_path / "many.svm")
    assert process.stdout.readline().endswith(b"\n")
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


# Ids that count from 1


def test_ids_from_one_are_remembered_by_the_model(folder, tmp_path):  # case 20
    (tmp_path / "one.svm").write_text(rows_of_pairs(1500, base=1))
    (tmp_path / "valid.svm").write_text(rows_of_pairs(400, seed=1, base=1))
    train(tmp_path, tmp_path / "m.rafm", "--index-base", "1", *ALL_ROWS, data="one.svm")
    train(folder, tmp_path / "zero.rafm", *ALL_ROWS)
    from_one, from_zero = load(tmp_path / "m.rafm"), load(tmp_path / "zero.rafm")
    assert (from_one.index_base, from_zero.index_base) == (1, 0)
    np.testing.assert_array_equal(from_one.model.parameters.weights, from_zero.model.parameters.weights)
    found = run("predict", tmp_path / "m.rafm", tmp_path / "valid.svm")
    assert found.out == run("predict", tmp_path / "zero.rafm", folder / "valid.svm").out
    assert run("predict", tmp_path / "m.rafm", tmp_path / "valid.svm", "--index-base", "1").out == found.out


# Inspect


def test_inspect_tells_of_a_model_what_training_told(folder):
    found, model = run("inspect", folder / "m.rafm", "--json").json(), load(folder / "m.rafm").model
    assert found["kind"] == "model"
    assert (found["model"], found["task"]) == ("rafm", "binary")
    assert found["parameters"] == model.n_parameters
    assert found["features"] == 22
    assert found["trained_rows"] == 1500
    assert found["bytes"] == (folder / "m.rafm").stat().st_size
    assert found["history"] == model.history
    assert [line["rank"] for line in found["plan"]] == [2, 5]
    assert found["fm_of_top_rank"]["rank"] == 5
    text = run("inspect", folder / "m.rafm").out
    assert f"parameters     {model.n_parameters}" in text
    assert len([line for line in text.splitlines() if line.endswith("kept")]) == 1


def test_inspect_finds_a_model_by_its_content(folder, tmp_path):
    (tmp_path / "model.bin").write_bytes((folder / "m.rafm").read_bytes())
    assert run("inspect", tmp_path / "model.bin", "--json").json()["kind"] == "model"


@pytest.mark.parametrize("family", FAMILIES)
def test_inspect_reads_every_family(folder, tmp_path, family):
    train(folder, tmp_path / "m.rafm", "--model", family, "--ranks", FAMILIES[family], *ALL_ROWS)
    assert run("inspect", tmp_path / "m.rafm").out.splitlines()[0].split() == ["model", family]


def test_inspect_tells_of_data_what_is_in_them_and_suggests_ranks(folder):
    found = run("inspect", folder / "train.svm", "--json").json()
    assert found["kind"] == "data"
    assert (found["rows"], found["nonzeros"], found["per_row"], found["features"]) == (1500, 3000, 2.0, 22)
    assert found["largest_id"] == 21
    assert found["label_range"] == [0.0, 1.0]
    assert found["ranks"] == [8, 32, 128]
    assert sum(line["features"] for line in found["frequencies"]) == 22
    text = run("inspect", folder / "train.svm").out
    assert "rows           1500" in text
    assert run("inspect", "-", "--json", stdin=(folder / "train.svm").read_bytes()).json() == found


def test_inspect_plans_the_ranks_that_it_is_given(folder):
    found = run("inspect", folder / "train.svm", "--ranks", "2,150", "--rank-scale", "0.1", "--json").json()
    assert [line["rank"] for line in found["plan"]] == [2, 150]
    assert found["plan"][1]["features"] < found["plan"][0]["features"] == 22


def test_inspect_of_an_empty_file_tells_that_it_is_empty():
    assert run("inspect", "-", "--json", stdin=b"").error() == "-: no rows"


@pytest.mark.parametrize("arguments", ["train {0} --out {0}", "predict {1} {0} --out {0}", "predict {1} {0} --out {1}"])
def test_an_output_never_replaces_an_input(folder, tmp_path, arguments):
    for name in ("train.svm", "m.rafm"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    files = [tmp_path / "train.svm", tmp_path / "m.rafm"]
    before = [path.read_bytes() for path in files]
    ran = run(*arguments.format(*files).split())
    assert "is an input" in ran.error()
    assert ran.code == 2
    assert [path.read_bytes() for path in files] == before


def test_labels_that_nobody_needs_are_not_looked_at(folder, tmp_path):
    (tmp_path / "rows.svm").write_text("2.75 3:1\n-1 4:1\n0 5:1\n")
    assert run("predict", folder / "m.rafm", tmp_path / "rows.svm").out.count("\n") == 3


def test_scores_beyond_all_numbers_are_an_error_and_not_nan(folder, tmp_path):
    (tmp_path / "rows.svm").write_text("1 3:1\n1 3:1e30 12:1e30\n")
    for command in ("predict", "evaluate"):
        ran = run(command, folder / "m.rafm", tmp_path / "rows.svm")
        assert (
            "row 2 (counted from 1): the score is out of float32 range; its largest value is 1e+30, of feature 3"
            in ran.err
        )
        assert ran.code == 3


# The rest


def test_version_and_help_are_printed_and_end_well():
    assert run("--version").out == f"rafm {rafm.__version__}\n"
    for arguments in ((), ("--help",), ("-h",), ("train", "--help")):
        ran = run(*arguments)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("Usage: ")


def test_every_option_of_the_contract_is_in_the_help():
    promised = (
        "--valid --out --task --model --ranks --rank-scale --update --optimizer --learning-rate --l2 --epochs "
        "--patience --threads --seed --format --json"
    )
    text = run("train", "--help").out
    assert [option for option in promised.split() if option not in text] == []


def test_json_is_one_line_that_any_parser_reads(folder):
    for arguments in (
        ("evaluate", folder / "m.rafm", folder / "valid.svm"),
        ("inspect", folder / "m.rafm"),
        ("inspect", folder / "train.svm"),
    ):
        out = run(*arguments, "--json").out
        assert out.count("\n") == 1
        json.loads(out)
