"""Published raw files become folders of rows; downloads are whole, checked and recorded, or leave nothing behind."""

import contextlib
import functools
import gzip
import hashlib
import http.server
import io
import json
import shutil
import ssl
import subprocess
import tarfile
import threading
import zipfile

import numpy as np
import pytest
from commands import run as run_rafm
from scipy.io import savemat

from experiments.datasets import CATALOG, data_folder
from experiments.datasets.__main__ import main
from experiments.datasets.catalog import Download
from experiments.datasets.fetch import download, raw_files, unpack
from experiments.datasets.formats import NEGATIVES, TABLES, split_lines
from experiments.datasets.get import read_whole
from experiments.datasets.prepared import PARTS, check_max_rows, load_prepared, split_rows
from experiments.datasets.table import TableBuilder, with_negatives
from rafm.errors import ConfigError, DataError, DataFormatError, DataValueError
from rafm.read.open import read_rows

run = functools.partial(run_rafm, main=main)
TAGS = [("1", "10", "great :: fun"), ("1", "11", "slow"), ("2", "10", "funny, odd"), ("3", "12", "war")]
AVAZU = "10000169349117863715,{},14102100,1005,0,1fbe01fe,f3845767,28905ebd,ecad2386,7801e8d9,07d7df22,a99f214a,{},"
AVAZU += "711ee120,1,0,15704,320,50,1722,0,35,-1,79\n"


def raw_texts(name):
    """Return the files of a data set as their publishers write them: {member: text or bytes}."""
    tagged = [f"{u}::{m}::{t}::12345{k}\n" for k, (u, m, t) in enumerate(TAGS)]
    quoted = ['{},{},"{}",99\n'.format(*cells) for cells in TAGS]
    parts = {part: "-1 0:1 3:1\n1 1:1 2:1\n" * n for part, n in zip(PARTS, (4, 2, 1))}
    matrix = io.BytesIO()
    savemat(matrix, {"rating": np.array([[7, 70, 1, 5, 2], [8, 70, 1, 3, 2], [7, 71, 2, 4, 0]], np.uint32)})
    reviews = [{"reviewerID": "A1", "asin": "B1", "overall": 5.0}, {"reviewerID": "A2", "asin": "B1", "overall": 2.0}]
    return {
        "ml-100k": {
            "u.data": "196\t242\t3\t881250949\n22\t377\t1\t878887116\n",
            "u.user": "196|49|M|writer|55105\n22|25|M|writer|40206\n",
        },
        "ml-1m": {
            "ratings.dat": "1::1193::5::978300760\n2::1193::3::97\n",
            "users.dat": "1::F::1::10::48067\n2::M::56::16::70072\n",
        },
        "ml-10m": {"ratings.dat": "1::122::5::838985046\n1::185::4.5::838983525\n"},
        "ml-20m": {"ratings.csv": "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n1,29,3.5,1112484676\n"},
        "ml10m-tag-popularity": {"tags.dat": "".join(tagged)},
        "ml20m-tag-popularity": {"tags.csv": "userId,movieId,tag,timestamp\n" + "".join(quoted)},
        "lastfm-tag-popularity": {
            "user_taggedartists.dat": "userID\tartistID\ttagID\tday\tmonth\tyear\n"
            + "".join(f"{u}\t{a}\t{len(t)}\t1\t4\t2009\n" for u, a, t in TAGS)
        },
        "frappe": {f"frappe.{part}.libfm": text for part, text in parts.items()},
        "ml-tag": {f"ml-tag.{part}.libfm": text for part, text in parts.items()},
        "frappe-raw": {
            "frappe.csv": "user\titem\tcnt\tdaytime\tweekday\tisweekend\thomework\tcost\tweather\tcountry\tcity\n"
            + "".join(
                f"{u}\t{i}\t3\tnight\tsunday\tweekend\thome\tfree\tsunny\tSpain\t0\n"
                for u, i in ((0, 0), (1, 1), (2, 1))
            )
        },
        "amazon-movies": {"ratings_Movies_and_TV.csv": "A1,B1,5.0,1203984000\nA2,B1,3.0,1388361600\n"},
        "amazon 5-core": {
            "reviews_Movies_and_TV_5.json.gz": gzip.compress("".join(json.dumps(r) + "\n" for r in reviews).encode())
        },
        "avazu": {"train.gz": gzip.compress("".join(AVAZU.format(k % 2, f"ip{k // 12}") for k in range(24)).encode())},
        "criteo": {"train.txt": "".join(f"{k % 2}\t{k}" + "\t" * 12 + "\t68fd1e64" * 26 + "\n" for k in range(30))},
        "ciao": {"rating.mat": matrix.getvalue()},
    }[name]


def write_raw(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    for member, text in raw_texts(name).items():
        (folder / member).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def whole_of(tmp_path, name, entry=None, **options):
    return read_whole(CATALOG[entry or name], write_raw(tmp_path / "raw", name), seed=0, **options)


def named_rows(whole):
    """Return each row as its label and its (field, value) pairs."""
    batch = whole.batch
    ids = np.split(batch.indices, batch.indptr[1:-1])
    return [(float(label), [whole.names[i] for i in row]) for label, row in zip(batch.labels, ids)]


def test_every_data_set_of_the_catalog_can_be_got_from_its_raw_files_and_read_back(tmp_path):
    for name in CATALOG:
        write_raw(tmp_path / "published" / name, name)
        ran = run("get", name, "--raw", tmp_path / "published" / name, "--folder", tmp_path / "sets")
        assert ran.code == 0, (name, ran.err)
        assert CATALOG[name].licence in ran.err
        assert CATALOG[name].citation in ran.err
        found = load_prepared(tmp_path / "sets", name)
        assert found.task == CATALOG[name].task
        assert sum(part.n_rows for part in found.parts) == len(
            read_whole(CATALOG[name], tmp_path / "published" / name, 0).batch.labels
        )
    checked = run("check", "--folder", tmp_path / "sets", "--json")
    assert [json.loads(line)["verified"] for line in checked.out.splitlines()] == [True] * len(CATALOG)


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m"])
def test_ratings_of_movielens_carry_what_is_known_of_the_user(tmp_path, name):
    label, cells = named_rows(whole_of(tmp_path, name))[0]
    user = ("196", "242", "49", "M", "writer", "55105") if name == "ml-100k" else ("1", "1193", "F", "1", "10", "48067")
    assert label == (3 if name == "ml-100k" else 5)
    assert tuple(value for _, value in cells) == user


@pytest.mark.parametrize(
    ("name", "entry", "expected"),
    [
        ("ml-10m", None, [(5, "1", "122"), (4.5, "1", "185")]),
        ("ml-20m", None, [(3.5, "1", "2"), (3.5, "1", "29")]),
        ("amazon-movies", None, [(5, "A1", "B1"), (3, "A2", "B1")]),
        ("amazon 5-core", "amazon-movies", [(5, "A1", "B1"), (2, "A2", "B1")]),
        ("ciao", None, [(5, "7", "70"), (3, "8", "70"), (4, "7", "71")]),
    ],
)
def test_ratings_are_user_item_and_label(tmp_path, name, entry, expected):
    found = [(label, *(value for _, value in cells)) for label, cells in named_rows(whole_of(tmp_path, name, entry))]
    assert found == expected


@pytest.mark.parametrize("name", ["ml10m-tag-popularity", "ml20m-tag-popularity"])
def test_each_tag_is_followed_by_two_that_the_user_did_not_give_the_movie(tmp_path, name):
    rows = [(label, *(value for _, value in cells)) for label, cells in named_rows(whole_of(tmp_path, name))]
    assert len(rows) == (1 + NEGATIVES) * len(TAGS)
    for at, tag in enumerate(TAGS):
        positive, *negatives = rows[3 * at : 3 * at + 3]
        assert positive == (1.0, *tag)
        for label, user, movie, other in negatives:
            assert (label, user, movie) == (0.0, *tag[:2])
            assert (user, movie, other) not in TAGS
            assert other in {tag for _, _, tag in TAGS}


def test_negative_apps_of_frappe_are_those_the_user_never_used(tmp_path):
    rows = named_rows(whole_of(tmp_path, "frappe-raw"))
    used = {(cells[0], cells[1]) for label, cells in rows if label}
    assert not used & {(cells[0], cells[1]) for label, cells in rows if not label}
    assert all(len(cells) == 10 for _, cells in rows)


def test_negatives_are_drawn_by_popularity():
    rows = TableBuilder("user", "tag")
    for user in range(8000):
        rows.add(1.0, f"u{user}", "aaaabbbc"[user % 8])
    found = with_negatives(rows.table(), "tag", 1, seed=0)
    of_c = found.codes[1::2, 1][7::8]
    assert set(of_c) == {0, 1}  # what users of c did not give: a and b, which occur 4 to 3
    assert (of_c == 0).mean() == pytest.approx(4 / 7, abs=0.06)  # four standard deviations of 1000 draws


def test_negatives_that_cannot_exist_are_an_error():
    rows = TableBuilder("user", "tag")
    rows.add(1.0, "ann", "only")
    with pytest.raises(DataValueError, match="cannot sample negatives"):
        with_negatives(rows.table(), "tag", 2, seed=0)


def test_published_parts_keep_their_split(tmp_path):
    write_raw(tmp_path / "x", "frappe")
    assert run("get", "frappe", "--raw", tmp_path / "x", "--folder", tmp_path).code == 0
    found = load_prepared(tmp_path, "frappe")
    assert [part.n_rows for part in found.parts] == [8, 4, 2]
    assert found.parts[0].labels[:2].tolist() == [0, 1]


def test_rows_without_a_split_are_dealt_by_the_seed_eight_to_one_to_one():
    parts = split_rows(1000, seed=3)
    assert [part.size for part in parts] == [800, 100, 100]
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))
    assert not np.array_equal(parts[1], split_rows(1000, seed=4)[1])


def test_the_first_rows_of_a_log_can_be_enough(tmp_path):
    assert whole_of(tmp_path, "criteo", max_rows=12).batch.n_rows == 12
    assert whole_of(tmp_path, "avazu", max_rows=13).batch.n_rows == 13


def test_rare_values_of_a_log_share_a_feature(tmp_path):
    names = {value for field, value in whole_of(tmp_path, "avazu").names if field == "device_ip"}
    assert {"ip0", "ip1"} <= names  # seen twelve times each
    few = {value for field, value in whole_of(tmp_path, "avazu", max_rows=14).names if field == "device_ip"}
    assert few == {"ip0", "<rare>"}


@pytest.mark.parametrize(
    ("name", "member", "text", "line", "words"),
    [
        ("ml-10m", "ratings.dat", "1::2::3\n", 1, "expected 4 cells, found 3"),
        ("ml-10m", "ratings.dat", "1::2::5::9\n1::2::five::9\n", 2, "expected a rating, found 'five'"),
        ("ml-1m", "ratings.dat", "9::2::5::9\n", 1, "unknown user '9'"),
        ("ml20m-tag-popularity", "tags.csv", "userId,movieId,tag,timestamp\n1,2,x\n", 2, "expected 4 cells, found 3"),
        ("amazon 5-core", "reviews_Movies_and_TV_5.json.gz", "{}\n", 1, "expected a review as JSON"),
    ],
)
def test_broken_raw_files_are_named_with_their_line(tmp_path, name, member, text, line, words):
    raw = write_raw(tmp_path, name)
    (raw / member).write_bytes(gzip.compress(text.encode()) if member.endswith(".gz") else text.encode())
    with pytest.raises(DataFormatError, match=words) as caught:
        read_whole(CATALOG["amazon-movies" if name == "amazon 5-core" else name], raw, 0)
    assert (caught.value.path, caught.value.line) == (str(raw / member), line)


def test_a_file_that_is_no_matlab_file_is_named(tmp_path):
    (tmp_path / "rating.mat").write_bytes(b"hello" * 100)
    with pytest.raises(DataFormatError, match="expected a MATLAB file"):
        TABLES["ciao_ratings"](tmp_path, 0)


def test_a_separator_inside_free_text_belongs_to_it(tmp_path):
    (tmp_path / "x").write_text("1::2::a::b::c::99\n")
    assert list(split_lines(tmp_path / "x", "::", 4, free_text=2)) == [(1, ["1", "2", "a::b::c", "99"])]


# ---- Archives and downloads


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "folder"])
def test_named_members_are_taken_out_of_archives_and_nothing_else(tmp_path, kind):
    source, target = tmp_path / f"a.{kind}", tmp_path / "out"
    target.mkdir()
    files = {"ml/ratings.dat": b"1::2::3::4\n", "ml/README": b"hi", "../evil/users.dat": b"x"}
    if kind == "zip":
        with zipfile.ZipFile(source, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
    elif kind == "tar.gz":
        with tarfile.open(source, "w:gz") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    else:
        (source / "ml").mkdir(parents=True)
        (source / "ml" / "ratings.dat").write_bytes(files["ml/ratings.dat"])
        (source / "ml" / "users.dat").write_bytes(b"x")
    found = unpack(source, ("ratings.dat", "users.dat"), target)
    assert {path.name for path in found} == {"ratings.dat", "users.dat"}
    assert sorted(path.name for path in target.iterdir()) == ["ratings.dat", "users.dat"]
    assert not (tmp_path / "evil").exists()
    assert (target / "ratings.dat").read_bytes() == files["ml/ratings.dat"]


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    """Return the certificate and the key of a server on the loopback interface."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed for a server that speaks https")
    folder = tmp_path_factory.mktemp("identity")
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def serving(identity, monkeypatch):
    """Return what serves one file by https on the loopback interface, by a certificate that we trust."""
    monkeypatch.setenv("SSL_CERT_FILE", str(identity[0]))
    return lambda content, announced=None: served(identity, content, announced)


@contextlib.contextmanager
def served(identity, content, announced):
    """Serve a file at /set...; announced is the length that its header claims. /plain leads to http."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/plain"):
                self.send_response(302)
                self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/set.zip")
                self.end_headers()
                return
            self.send_response(200 if self.path.startswith("/set") else 404)
            self.send_header("Content-Length", str(announced or len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*identity)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ROWS = {kind: hashlib.new(kind, b"rows").hexdigest() for kind in ("sha256", "md5")}


def test_a_download_is_compared_with_its_pinned_checksum(tmp_path, serving):  # case 113
    told = []
    with serving(b"rows") as address:
        source = Download(f"{address}/set.zip", **ROWS)
        assert download(source, tmp_path, told.append).read_bytes() == b"rows"
        assert "sha256 verified" in told[0]
        for wrong in ({"sha256": "00"}, {**ROWS, "md5": "00"}):
            with pytest.raises(DataValueError, match="expected 00"):
                download(Download(f"{address}/set2.zip", **wrong), tmp_path, told.append)
        with pytest.raises(DataValueError, match=r"md5 is .*, expected 00"):
            download(Download(f"{address}/set2.zip", md5="00"), tmp_path, told.append, unverified=True)
    assert [path.name for path in tmp_path.iterdir()] == ["set.zip"]


@pytest.mark.parametrize("known", [{}, {"md5": ROWS["md5"]}], ids=["nothing", "md5"])
def test_a_download_that_is_not_pinned_is_refused_unless_asked_for(known, tmp_path, serving):  # case 113
    told = []
    with serving(b"rows") as address:
        source = Download(f"{address}/set.zip", **known)
        with pytest.raises(ConfigError, match=r"no SHA-256 is known.*--unverified"):
            download(source, tmp_path, told.append)
        assert not told
        assert not list(tmp_path.iterdir())
        download(source, tmp_path, told.append, unverified=True)
    assert told == [f"{source.url}: unverified, 4 bytes, sha256:{ROWS['sha256']}; note it for comparison"]


@pytest.mark.parametrize("url", ["http://127.0.0.1/set.zip", "file:///etc/hostname", "ftp://127.0.0.1/set.zip"])
def test_nothing_is_fetched_but_by_https(url, tmp_path):  # case 113
    with pytest.raises(DataValueError, match="only https downloads are allowed"):
        download(Download(url, **ROWS), tmp_path, print, unverified=True)
    assert not list(tmp_path.iterdir())


def test_a_redirection_away_from_https_is_not_followed(tmp_path, serving):  # case 113
    with serving(b"rows") as address, pytest.raises(DataValueError, match=r"http://127.* only https downloads"):
        download(Download(f"{address}/plain", **ROWS), tmp_path, print)
    assert not list(tmp_path.iterdir())


def test_a_server_that_nobody_vouches_for_is_refused(tmp_path, serving, monkeypatch):  # case 113
    monkeypatch.delenv("SSL_CERT_FILE")
    with serving(b"rows") as address, pytest.raises(OSError, match=r"download failed.*certificate"):
        download(Download(f"{address}/set.zip", **ROWS), tmp_path, print)


@pytest.mark.parametrize("fault", ["short", "missing", "refused"])
def test_a_failed_download_names_the_address_and_leaves_nothing(tmp_path, fault, serving):
    with serving(b"rows", announced=40 if fault == "short" else None) as address:
        url = f"{address}/{'set.zip' if fault != 'missing' else 'other.zip'}"
        if fault != "refused":
            with pytest.raises(OSError, match="download failed") as caught:
                download(Download(url, **ROWS), tmp_path, print)
    if fault == "refused":  # the server is gone
        with pytest.raises(OSError, match="download failed") as caught:
            download(Download(url, **ROWS), tmp_path, print)
    assert caught.value.filename == url
    assert not list(tmp_path.iterdir())


def test_getting_a_set_records_the_checksum_of_its_archive(tmp_path, monkeypatch, serving):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        for member, text in raw_texts("ml-10m").items():
            packed.writestr(f"ml-10M100K/{member}", text)
    with serving(archive.getvalue()) as address:
        entry = CATALOG["ml-10m"]
        source = Download(f"{address}/set.zip")
        monkeypatch.setitem(CATALOG, "ml-10m", type(entry)(**{**vars(entry), "downloads": (source,)}))
        refused = run("get", "ml-10m", "--folder", tmp_path)
        assert (refused.code, "--unverified" in refused.err) == (2, True)
        ran = run("get", "ml-10m", "--folder", tmp_path, "--unverified")
    assert ran.code == 0, ran.err
    seen = hashlib.sha256(archive.getvalue()).hexdigest()
    assert seen in ran.out
    assert f"{seen}  ml-10m/raw/set.zip" in (tmp_path / "SHA256SUMS").read_text()


# ---- Commands


def prepared(tmp_path):
    write_raw(tmp_path / "x", "criteo")
    assert run("get", "criteo", "--raw", tmp_path / "x", "--folder", tmp_path).code == 0
    return tmp_path / "criteo"


def test_equal_seeds_give_equal_files(tmp_path):
    first, second = prepared(tmp_path / "a"), prepared(tmp_path / "b")
    names = sorted(path.name for path in first.iterdir() if path.is_file())
    assert names == sorted(["stats.json", "features.tsv.gz", *(f"criteo.{part}.libfm.gz" for part in PARTS)])
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def test_a_changed_file_fails_the_check(tmp_path):
    path = prepared(tmp_path) / "criteo.test.libfm.gz"
    path.write_bytes(gzip.compress(b"1 0:1\n"))
    ran = run("check", "criteo", "--folder", tmp_path)
    assert ran.code == 3
    assert ran.error().startswith(f"{path}: the checksum differs")


def test_a_file_with_rows_missing_fails_the_check_even_without_checksums(tmp_path):
    path = prepared(tmp_path) / "criteo.test.libfm.gz"
    path.write_bytes(gzip.compress(b"1 0:1\n"))
    (tmp_path / "SHA256SUMS").unlink()
    ran = run("check", "criteo", "--folder", tmp_path)
    assert ran.code == 3
    assert "test has 1 row, stats.json says 3" in ran.error()


def test_a_folder_filled_by_hand_is_ready_and_unverified(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    for part in PARTS:
        (tmp_path / "mine" / f"mine.{part}.libfm").write_text("3.5 0:1 2:1\n1 1:1 2:0.5\n")
    monkeypatch.setenv("RAFM_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert load_prepared(tmp_path, "mine").task == "regression"
    assert "mine" in run("list").out
    assert run().out == run("list").out
    assert run("check", "mine", "--json").json()["verified"] is False


def test_the_list_shows_terms_citation_and_state_of_every_set(tmp_path):
    prepared(tmp_path)
    shown = run("list", "--folder", tmp_path).out
    assert all(text in shown for entry in CATALOG.values() for text in (entry.title, entry.licence, entry.citation))
    sets = run("list", "--folder", tmp_path, "--json").json()["sets"]
    assert [name for name, entry in sets.items() if entry["ready"]] == ["criteo"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["get", "netflix"], 2, "unknown data set 'netflix'"),
        (["get", "criteo"], 3, "accept its terms at https://ailab.criteo.com"),
        (["get", "ciao", "--raw", "nowhere"], 6, "nowhere: no such file or directory"),
        (["get", "criteo", "--rows", "3"], 2, "rows must be at least 10"),
        (["check", "ciao"], 6, "run `python -m experiments.datasets get ciao`"),
    ],
)
def test_what_cannot_be_got_is_explained(tmp_path, arguments, code, words):
    ran = run(*arguments, "--folder", tmp_path)
    assert ran.code == code
    assert words in ran.err
    assert ran.err.splitlines()[-1].startswith("error: ")


def test_a_source_without_the_wanted_files_is_named(tmp_path):
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(DataError, match=r"x.txt: found none of rating.mat"):
        raw_files(CATALOG["ciao"], tmp_path, tmp_path / "x.txt", print)


def test_every_address_is_https_and_checksums_have_their_form():  # case 113
    sources = {source.file: source for entry in CATALOG.values() for source in entry.downloads}
    assert all(source.url.startswith("https://") for source in sources.values())
    pinned = sorted(name for name, source in sources.items() if source.sha256)
    assert pinned == ["ml-100k.zip", "ml-1m.zip", "ml-20m.zip"]
    assert all(len(bytes.fromhex(sources[name].sha256)) == 32 for name in pinned)
    assert all(len(bytes.fromhex(source.md5)) == 16 for source in sources.values() if source.md5)


def test_first_columns_are_those_of_the_first_fields(tmp_path):
    prepared(tmp_path)
    whole, two = load_prepared(tmp_path, "criteo"), load_prepared(tmp_path, "criteo", n_columns=2)
    for before, after in zip(whole.parts, two.parts):
        assert np.diff(after.indptr).tolist() == [2] * before.n_rows
        assert after.indices[:2].tolist() == before.indices[:2].tolist()
    assert read_rows(tmp_path / "criteo" / "criteo.test.libfm.gz", task="binary").n_rows == whole.parts[2].n_rows


def test_a_rows_bound_below_ten_is_refused():
    with pytest.raises(ConfigError):
        check_max_rows(9)
