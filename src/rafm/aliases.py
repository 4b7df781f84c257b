"""Names of training options in other libraries. They are not accepted; messages suggest our names instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

ALIASES = {
    "model": "family algorithm estimator",
    "ranks": "rank k dim dims dimension factors n_factors num_factors latent_dim embedding_dim n_components",
    "rank_scale": "scale generosity",
    "levels": "min_counts",
    "update": "update_rule",
    "dependent_weight": "rho rho_d",
    "optimizer": "optimiser opt solver algo",
    "learning_rate": "lr eta eta0 alpha step_size step learn_rate rate",
    "l2": "reg lambda reg_lambda lambda_l2 weight_decay regularization regularisation l2_reg alpha_l2",
    "l1": "lambda_l1 l1_reg reg_alpha",
    "n_epochs": "epochs num_epochs iterations iter iters n_iter max_iter num_iter passes n_estimators",
    "patience": "early_stopping early_stopping_rounds n_iter_no_change",
    "metric": "metrics eval_metric scoring",
    "max_seconds": "max_time time_limit timeout budget",
    "loss": "objective criterion",
    "seed": "random_state random_seed rng",
    "threads": "jobs n_jobs num_threads workers n_threads nthread nthreads cores num_workers cpus",
    "negative_rate": "negative_sampling downsampling",
}


def nearest_name(name: str, spellings: Mapping[str, set[str]], known: Iterable[str]) -> str | None:
    """Return the known name that matches a name of another library, or the one spelled most alike; else None.

    spellings: all names that we have for each option.
    """
    names, wanted = [*known], name.replace("-", "_").lower()
    for own, ours in spellings.items():
        if wanted in {*ours, *ALIASES.get(own, "").split()} and (found := ours.intersection(names)):
            return found.pop()
    return next(iter(difflib.get_close_matches(wanted, names, n=1)), None)
