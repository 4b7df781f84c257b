"""What is tuned: the options that the user left open, and the range of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..checks import MEASURED
from ..flag_values import AUTO
from ..options import Options
from ..train.policy import NEUTRAL_FOR_CLICKS

PLAIN, MEASURE, SAMPLE = "plain", "auto", "gibbs"  # recipes: ranks by counts, measured ranks, sampling
RATE_RANGE, L2_RANGE, WEIGHT_RANGE = (1 / 6, 3.0), (1 / 10, 10.0), (1 / 4, 4.0)  # times the default
SCALE_RANGE, INIT_RANGE, WEIGHTS_L2_RANGE = (0.25, 16.0), (0.003, 0.1), (1e-7, 1e-2)
RANK_GROWTH = 4  # from one rank to the next, as in the defaults
FREE_OPTIONS = {"seed", "metric", "n_epochs", "patience", "validation_fraction", "max_seconds", "loss"}  # of recipes
Settings = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """Options to be tuned.

    Parameters
    ----------
    options : Options
        What the user gave, completed by the defaults.
    fixed : frozenset of str
        Names of the options that the user gave; they are not tuned.
    n_fields : int
        Number of fields in the data.
    is_judged : bool
        Whether the user gave validation rows. Otherwise the last step is to train on all rows, and learning rates do
        not drop.
    has_size : bool
        Whether the size of models is limited.
    """

    options: Options
    fixed: frozenset[str]
    n_fields: int = 0
    is_judged: bool = True
    has_size: bool = False

    def recipes(self) -> list[str]:
        """Return the recipes that the given options allow.

        >>> from rafm.options import resolve
        >>> Space(resolve(task="regression"), frozenset()).recipes()
        ['plain', 'auto', 'gibbs']
        >>> Space(resolve(task="binary", ranks=8), frozenset({"ranks"})).recipes()
        ['plain']
        """
        options, found = self.options, [PLAIN]
        ranks_are_free = not self.fixed & {"ranks", "rank_scale", "levels", "update", "l1"}
        can_cut = options.model == MEASURED and options.optimizer.name in ("adagrad", "sgd")
        if ranks_are_free and can_cut and len(set(options.l2)) == 1:
            found.append(MEASURE)
        if options.loss.name == "squared" and self.fixed <= FREE_OPTIONS:
            found.append(SAMPLE)
        return found

    def known(self) -> list[tuple[dict[str, Any], Settings]]:
        """Return the trials to begin with, which have the defaults: values to fix in the study, and settings."""
        starts: list[tuple[dict[str, Any], Settings]] = [({"recipe": PLAIN, **self._defaults()}, self._by_counts())]
        if SAMPLE in self.recipes() and self.has_size:  # cut to the size
            starts.append(({"recipe": SAMPLE}, {"optimizer": SAMPLE, "ranks": AUTO}))
        elif SAMPLE in self.recipes():
            starts.append(({"recipe": SAMPLE, "rank": 3}, _sampled(3)))
        if MEASURE in self.recipes():
            starts.append(({"recipe": MEASURE}, {"ranks": AUTO, **self._stepped()}))
        return starts

    def _stepped(self) -> Settings:
        """Return what keeps ratings from being sampled, as they are if no option is given."""
        return {"optimizer": self.options.optimizer.name} if SAMPLE in self.recipes() else {}

    def _by_counts(self) -> Settings:
        """Return the settings of ranks by counts, which rows may not replace by a sampler or by measured ranks."""
        may_measure = self.options.loss.is_classification and self.fixed <= {*NEUTRAL_FOR_CLICKS}
        return {"optimizer": self.options.optimizer.name} if may_measure else self._stepped()

    def suggest(self, trial: Any) -> Settings:
        """Return the settings of a trial of Optuna."""
        recipe = trial.suggest_categorical("recipe", self.recipes())
        if recipe == SAMPLE:  # priors are learned, so there is nothing else to choose
            return _sampled(trial.suggest_int("rank", 3, 7))
        settings = {name: draw(trial) for name, draw in self._numbers().items() if self._is_open(name, recipe)}
        settings |= self._stepped()
        if recipe == MEASURE:
            settings["ranks"] = AUTO
        elif self.options.ranks and self._is_open("ranks", recipe):
            settings["ranks"] = self._suggest_ranks(trial)
        return settings

    def suggest_known(self, trial: Any, fixed: dict[str, Any], settings: Settings) -> Settings:
        """Return known settings; tell Optuna those that it could have suggested itself."""
        if fixed.keys() == {"recipe"}:  # it finds all else by itself
            trial.suggest_categorical("recipe", self.recipes())
        else:
            self.suggest(trial)
        return settings

    def _is_open(self, name: str, recipe: str) -> bool:
        is_by_count = self.options.family.levels_by_count and self.options.levels is None
        needs = {"rank_scale": is_by_count and recipe == PLAIN, "dependent_weight": recipe == PLAIN}
        return name not in self.fixed and needs.get(name, True)

    def _suggest_ranks(self, trial: Any) -> tuple[int, ...]:
        first = 2 ** trial.suggest_int("first_rank", 1, self.options.family.tuned_rank)
        count = 1 if self.options.family.max_ranks == 1 else trial.suggest_int("n_ranks", 1, 3)
        return tuple(first * RANK_GROWTH**k for k in range(count))

    def _numbers(self) -> dict[str, Callable[[Any], Any]]:
        """Return how to draw each option but the ranks."""
        options = self.options
        if not options.optimizer.has_steps:
            return {}
        draws = {"learning_rate": _log("learning_rate", *_times(options.learning_rate, RATE_RANGE))}
        if not options.ranks:
            return draws | {"l2_weights": _log("l2_weights", *WEIGHTS_L2_RANGE)}
        draws["l2"] = _log("l2", *_times(self._l2(), L2_RANGE))
        draws["rank_scale"] = _log("rank_scale", *SCALE_RANGE)
        draws["init_scale"] = _log("init_scale", *INIT_RANGE)
        draws["averaging"] = lambda trial: trial.suggest_categorical("averaging", [False, True])
        if options.family.nested and options.joint:
            weights = _times(options.loss.dependent_weight, WEIGHT_RANGE)
            draws["dependent_weight"] = _log("dependent_weight", *weights)
        if options.optimizer.name != "ftrl" and self.is_judged:
            draws["rate_drops"] = lambda trial: trial.suggest_int("rate_drops", 0, 2)
        if "field_weights" in options.family.options and self.n_fields > 1:
            draws["field_weights"] = lambda trial: trial.suggest_categorical("field_weights", ["on", "off"])
        return draws

    def _l2(self) -> float:
        """Return the default L2, which depends on the length of rows."""
        return next(iter(self.options.l2), 0.0) or self.options.loss.l2

    def _defaults(self) -> dict[str, Any]:
        """Return the defaults as values in the study."""
        options = self.options
        found = {name: getattr(options, name) for name in self._numbers()}
        found["l2"] = self._l2()
        if "l2_weights" in found:  # 0 by default, which a log scale lacks
            found["l2_weights"] = WEIGHTS_L2_RANGE[0]
        if "field_weights" in found:
            found["field_weights"] = "off" if options.field_weights == "off" else "on"
        if options.ranks:
            highest = options.family.tuned_rank
            nearest = min(range(1, highest + 1), key=lambda k: abs(2**k - options.ranks[0]))
            found |= {"first_rank": nearest, "n_ranks": min(len(options.ranks), 3), "rank": 3}
        return found


def _sampled(log_rank: int) -> Settings:
    return {"model": "fm", "optimizer": "gibbs", "ranks": (2**log_rank,)}


def _times(default: float, factors: tuple[float, float]) -> tuple[float, float]:
    return default * factors[0], default * factors[1]


def _log(name: str, low: float, high: float) -> Callable[[Any], float]:
    """Return how to draw a number on a log scale, rounded so that it can be typed."""
    return lambda trial: float(f"{trial.suggest_float(name, low, high, log=True):.3g}")
