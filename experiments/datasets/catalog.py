"""Catalog of data sets: task, terms, citation, where each is published and how its files are read.

Downloads are verified by SHA-256. Where none is known, the user must opt in with --unverified. Those of MovieLens 100K,
1M and 20M are also pinned by TensorFlow Datasets.
"""

from __future__ import annotations

from dataclasses import dataclass

from rafm.errors import ConfigError

GROUPLENS = "https://files.grouplens.org/datasets"
NFM = "https://raw.githubusercontent.com/hexiangnan/neural_factorization_machine/master/data"
MOVIELENS_TERMS = "research only, cite, no redistribution, no commercial use without permission"
MOVIELENS_PAPER = "Harper and Konstan: The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015"
UNSTATED = "none stated; ask the publisher before use beyond research"


@dataclass(frozen=True)
class Download:
    """A file to download over https; sha256: pinned here; md5: announced by the publisher."""

    url: str
    sha256: str | None = None
    md5: str | None = None

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Entry:
    """One data set; loader: a function of formats.py; members: the files that it reads, or alternatives."""

    name: str
    title: str
    task: str
    loader: str
    members: tuple[str, ...]
    licence: str
    citation: str
    page: str
    downloads: tuple[Download, ...] = ()


def _movielens(name: str, title: str, loader: str, members: tuple[str, ...], archive: str) -> Entry:
    task = "binary" if "tag" in name else "regression"
    page = "https://grouplens.org/datasets/movielens/"
    source = (Download(f"{GROUPLENS}/movielens/{archive}", SHA256.get(archive), MD5[archive]),)
    return Entry(name, title, task, loader, members, MOVIELENS_TERMS, MOVIELENS_PAPER, page, source)


def _published(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{part}.libfm" for part in ("train", "validation", "test"))


SHA256 = {
    "ml-100k.zip": "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    "ml-1m.zip": "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    "ml-20m.zip": "96f243c338a8665f6bcc89c53edf6ee39162a846940de6b7c8c48aeada765ff3",
}
MD5 = {  # as announced by the publisher
    "ml-100k.zip": "0e33842e24a9c977be4e0107933c0723",
    "ml-1m.zip": "c4d9eecfca2ab87c1945afe126590906",
    "ml-10m.zip": "ce571fd55effeba0271552578f2648bd",
    "ml-20m.zip": "cd245b17a1ae2cc31bb14903e1204af3",
}
ENTRIES = (
    _movielens(
        "ml-100k",
        "MovieLens 100K ratings",
        "movielens_100k",
        ("u.data", "u.user"),
        "ml-100k.zip",
    ),
    _movielens(
        "ml-1m",
        "MovieLens 1M ratings",
        "movielens_1m",
        ("ratings.dat", "users.dat"),
        "ml-1m.zip",
    ),
    _movielens("ml-10m", "MovieLens 10M ratings", "movielens_10m", ("ratings.dat",), "ml-10m.zip"),
    _movielens("ml-20m", "MovieLens 20M ratings", "movielens_20m", ("ratings.csv",), "ml-20m.zip"),
    _movielens(
        "ml10m-tag-popularity",
        "MovieLens 10M tags, two sampled negatives each",
        "movielens_10m_tags",
        ("tags.dat",),
        "ml-10m.zip",
    ),
    _movielens(
        "ml20m-tag-popularity",
        "MovieLens 20M tags, two sampled negatives each",
        "movielens_20m_tags",
        ("tags.csv",),
        "ml-20m.zip",
    ),
    Entry(
        "ml-tag",
        "the paper's ML Tag, as prepared for neural FMs",
        "binary",
        "published_parts",
        _published("ml-tag"),
        MOVIELENS_TERMS,  # the tags are those of MovieLens
        "He and Chua: Neural Factorization Machines for Sparse Predictive Analytics. SIGIR 2017",
        "https://github.com/hexiangnan/neural_factorization_machine",
    ),
    Entry(
        "frappe",
        "app use in context, as prepared for neural FMs",
        "binary",
        "published_parts",
        _published("frappe"),
        "research only, cite, no redistribution, no commercial use",
        "Baltrunas et al.: Frappe: Understanding the Usage and Perception of Mobile App Recommendations In-The-Wild. "
        "arXiv:1505.03014, 2015",
        "https://www.baltrunas.info/context-aware",
        tuple(Download(f"{NFM}/frappe/{file}") for file in _published("frappe")),
    ),
    Entry(
        "frappe-raw",
        "app use in context from the log itself, two sampled negatives each",
        "binary",
        "frappe_log",
        ("frappe.csv",),
        "research only, cite, no redistribution, no commercial use",
        "Baltrunas et al., arXiv:1505.03014, 2015",
        "https://www.baltrunas.info/context-aware",
    ),
    Entry(
        "amazon-movies",
        "Amazon movie ratings, all of them or the 5-core",
        "regression",
        "amazon_ratings",
        ("ratings_Movies_and_TV.csv", "reviews_Movies_and_TV_5.json.gz"),
        UNSTATED,
        "McAuley et al.: Image-based Recommendations on Styles and Substitutes. SIGIR 2015",
        "https://jmcauley.ucsd.edu/data/amazon/",
        (Download("https://snap.stanford.edu/data/amazon/productGraph/categoryFiles/ratings_Movies_and_TV.csv"),),
    ),
    Entry(
        "avazu",
        "Avazu click-through, ten days",
        "binary",
        "avazu_log",
        ("train.gz", "train.csv", "train.csv.gz"),
        "the rules of the competition: non-commercial",
        "Avazu: Click-Through Rate Prediction. Kaggle, 2014",
        "https://www.kaggle.com/c/avazu-ctr-prediction/data",
    ),
    Entry(
        "criteo",
        "Criteo display advertising, seven days",
        "binary",
        "criteo_log",
        ("train.txt", "train.txt.gz", "train.tsv.gz"),
        "non-commercial (CC BY-NC-SA 4.0)",
        "Criteo Labs: Display Advertising Challenge. Kaggle, 2014",
        "https://ailab.criteo.com/ressources/",
    ),
    Entry(
        "lastfm-tag-popularity",
        "HetRec 2011 Last.fm tags, two sampled negatives each",
        "binary",
        "lastfm_tags",
        ("user_taggedartists.dat",),
        "non-commercial, cite",
        "Cantador, Brusilovsky and Kuflik: 2nd Workshop on Information Heterogeneity (HetRec 2011). RecSys 2011",
        "https://grouplens.org/datasets/hetrec-2011/",
        (Download(f"{GROUPLENS}/hetrec2011/hetrec2011-lastfm-2k.zip"),),
    ),
    Entry(
        "ciao",
        "Ciao product ratings",
        "regression",
        "ciao_ratings",
        ("rating.mat",),
        UNSTATED,
        "Tang, Gao, Liu and Das Sarma: eTrust: Understanding Trust Evolution in an Online World. KDD 2012",
        "https://www.cse.msu.edu/~tangjili/datasetcode/truststudy.htm",
        (Download("https://www.cse.msu.edu/~tangjili/datasetcode/ciao.zip"),),
    ),
)
CATALOG = {entry.name: entry for entry in ENTRIES}


def entry_of(name: str) -> Entry:
    """Return the catalog entry of a data set.

    >>> entry_of("netflix")
    Traceback (most recent call last):
    rafm.errors.ConfigError: unknown data set 'netflix'; `python -m experiments.datasets list` shows all
    """
    if name not in CATALOG:
        raise ConfigError(f"unknown data set {name!r}; `python -m experiments.datasets list` shows all", key="name")
    return CATALOG[name]
