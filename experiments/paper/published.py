"""The results published in the paper, for comparison."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One line of the paper's Table 3 or 4; time is training time relative to FM, area (AUC) is None for ratings."""

    loss: float
    deviation: float
    area: float | None
    millions: float  # of parameters
    time: float


TABLES: dict[str, dict[str, Published]] = {
    "ML 10M": {
        "FM": Published(0.8016, 0.0010, None, 2.66, 1.0),
        "DiFacto": Published(0.7950, 0.0011, None, 1.79, 0.82),
        "MRMA": Published(0.7952, 0.0006, None, 4.11, 1.27),
        "RaFM": Published(0.7870, 0.0008, None, 1.57, 0.95),
    },
    "ML 20M": {
        "FM": Published(0.8002, 0.0008, None, 5.45, 1.0),
        "DiFacto": Published(0.7948, 0.0005, None, 3.22, 0.70),
        "MRMA": Published(0.7855, 0.0011, None, 8.43, 1.19),
        "RaFM": Published(0.7807, 0.0009, None, 3.63, 0.74),
    },
    "AMovie": {
        "FM": Published(1.0203, 0.0046, None, 3.25, 1.0),
        "DiFacto": Published(1.0268, 0.0051, None, 1.76, 0.75),
        "MRMA": Published(1.0071, 0.0039, None, 5.02, 1.27),
        "RaFM": Published(0.9986, 0.0035, None, 1.76, 0.75),
    },
    "Frappe": {
        "FM": Published(0.1702, 0.0023, 0.9771, 1.38, 1.0),
        "DiFacto": Published(0.1711, 0.0023, 0.9771, 0.61, 0.63),
        "RaFM": Published(0.1447, 0.0015, 0.9811, 0.71, 0.73),
    },
    "ML Tag": {
        "FM": Published(0.2538, 0.0009, 0.9503, 46.40, 1.0),
        "DiFacto": Published(0.2529, 0.0007, 0.9450, 16.97, 0.42),
        "RaFM": Published(0.2387, 0.0005, 0.9526, 9.23, 0.24),
    },
    "Avazu": {
        "FM": Published(0.3817, 0.0001, 0.7761, 18.81, 1.0),
        "DiFacto": Published(0.3823, 0.0003, 0.7778, 10.83, 0.82),
        "RaFM": Published(0.3801, 0.0002, 0.7826, 10.17, 0.85),
    },
    "Criteo": {
        "FM": Published(0.4471, 0.0002, 0.8030, 35.87, 1.0),
        "DiFacto": Published(0.4470, 0.0002, 0.8030, 19.70, 0.63),
        "RaFM": Published(0.4451, 0.0001, 0.8060, 20.88, 0.67),
    },
}
NEAREST = {  # our data set -> the paper's, and how they compare
    "frappe": ("Frappe", "the paper's data; training negatives are paired anew if the rows were rebuilt"),
    "ml10m-tag-popularity": ("ML Tag", "the same protocol on a seventh of the tags: compare models, not figures"),
    "lastfm-tag-popularity": ("ML Tag", "the same protocol on other data: compare models, not figures"),
    "ml-1m": ("ML 10M", "ratings of the same kind, a tenth as many: compare models, not figures"),
    "ciao": ("AMovie", "product ratings too: compare models, not figures"),
    "ml-10m": ("ML 10M", "the paper's data"),
    "ml-20m": ("ML 20M", "the paper's data"),
    "ml-tag": ("ML Tag", "the paper's data"),
    "amazon-movies": ("AMovie", "the paper's data"),
    "avazu": ("Avazu", "the paper's data"),
    "criteo": ("Criteo", "the paper's data"),
}
TABLE2 = {  # ML Tag: log loss, millions of parameters, time relative to FM 512
    "FM 512": (0.2538, 46.40, 1.0),
    "S1": (0.2405, 17.89, 0.43),
    "S2": (0.2416, 9.63, 0.17),
    "S3": (0.2387, 9.23, 0.24),
    "S4": (0.2391, 17.75, 1.35),
}
