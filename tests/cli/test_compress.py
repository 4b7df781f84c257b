"""`rafm compress`: a smaller file, told before and after, or why not."""

import pytest
from commands import rows_of_pairs, run

from rafm import load
from rafm.predictor import Predictor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with rows, an FM and a RaFM."""
    path = tmp_path_factory.mktemp("compress")
    (path / "rows").write_text(rows_of_pairs())
    for name, flags in (("fm", ("--model", "fm", "--ranks", 8)), ("rafm", ("--ranks", "4,8", "--rank-scale", 0.1))):
        found = run("train", path / "rows", "--out", path / f"{name}.rafm", "--epochs", 3, *flags)
        assert found.code == 0, found.err
    return path


def test_a_cut_model_is_told_before_and_after(folder):
    flags = ("--out", folder / "small.rafm", "--max-parameters", 100, "--valid", folder / "rows")
    found = run("compress", folder / "fm.rafm", *flags, "--json")
    assert found.code == 0, found.err
    report, small = found.json(), Predictor.load(folder / "small.rafm")
    assert report["before"]["parameters"] == 199
    assert report["after"]["parameters"] == small.saved.model.n_parameters <= 100
    assert report["after"]["bytes"] == (folder / "small.rafm").stat().st_size < report["before"]["bytes"]
    assert report["before"]["bytes"] == (folder / "fm.rafm").stat().st_size
    assert report["after"]["log_loss"] == small.evaluate(folder / "rows")["log_loss"] > report["before"]["log_loss"]
    lines = run("compress", folder / "fm.rafm", *flags).out.splitlines()
    assert lines[0].split() == ["parameters", "bytes", "log_loss", "auc", "normalized_entropy"]
    assert [line.split()[0] for line in lines[1:]] == ["before", "after", "saved"]


def test_the_file_stays_within_its_bytes(folder):
    limit = (folder / "fm.rafm").stat().st_size - 200
    assert run("compress", folder / "fm.rafm", "--out", folder / "small.rafm", "--max-bytes", limit).code == 0
    assert limit - 100 < (folder / "small.rafm").stat().st_size <= limit


def test_a_level_becomes_a_model(folder):
    assert run("compress", folder / "rafm.rafm", "--out", folder / "low.rafm", "--level", 1).code == 0
    assert load(folder / "low.rafm").ranks == (4,)


WRONG = {
    "nothing to do": ((), "set --bits, a size (--max-parameters or --max-bytes) or a level"),
    "a level of an fm": (("--level", 1), "--level must be between 1 and 1 and needs --model rafm, found 1 for 'fm'"),
    "too small": (("--max-parameters", 3), "--max-parameters must be at least 23"),
    "five bits": (("--bits", 5), "--bits must be one of 16, 8, 6, 4, found 5"),
    "a size and a level": (("--level", 1, "--max-bytes", 999), "or a level; bits can be combined with either"),
    "no number": (("--max-bytes", 0), "--max-bytes must be a whole number of at least 1, found 0"),
}


@pytest.mark.parametrize(("flags", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_done_is_one_line(flags, message, folder):
    found = run("compress", folder / "fm.rafm", "--out", folder / "none.rafm", *flags)
    assert found.code == 2
    assert message in found.error()
    assert not (folder / "none.rafm").exists()


def test_a_rafm_is_cut_too_and_a_model_is_not_overwritten(folder):
    found = run("compress", folder / "rafm.rafm", "--out", folder / "low.rafm", "--max-parameters", 100)
    assert found.code == 0, found.err
    assert load(folder / "low.rafm").n_parameters_ <= 100
    assert run("compress", folder / "rafm.rafm", "--out", folder / "rafm.rafm", "--level", 1).code == 2


def test_fewer_bits_are_told_before_and_after(folder):
    flags = ("--out", folder / "bits.rafm", "--bits", 8, "--valid", folder / "rows")
    report = run("compress", folder / "fm.rafm", *flags, "--json").json()
    assert report["after"]["bytes"] == (folder / "bits.rafm").stat().st_size < report["before"]["bytes"]
    assert report["after"]["parameters"] == report["before"]["parameters"]
    assert report["after"]["log_loss"] == pytest.approx(report["before"]["log_loss"], rel=0.01)
    assert Predictor.load(folder / "bits.rafm").evaluate(folder / "rows")["log_loss"] == report["after"]["log_loss"]
    assert run("inspect", folder / "bits.rafm", "--json").json()["bits"] == 8


def test_a_file_of_few_bits_stays_within_its_bytes(folder):
    run("compress", folder / "fm.rafm", "--out", folder / "bits.rafm", "--bits", 4)
    limit = (folder / "bits.rafm").stat().st_size - 20
    found = run("compress", folder / "fm.rafm", "--out", folder / "cut.rafm", "--bits", 4, "--max-bytes", limit)
    assert found.code == 0, found.err
    assert (folder / "cut.rafm").stat().st_size <= limit
    again = run("compress", folder / "bits.rafm", "--out", folder / "again.rafm", "--max-parameters", 100)
    assert again.code == 0, again.err
    assert load(folder / "again.rafm").model_.parameters.bits == 4
