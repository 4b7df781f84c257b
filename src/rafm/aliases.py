"""What other programs call options, flags, commands and tasks. None is accepted; messages suggest our names instead."""

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
TASKS = {
    "binary": "classification classify classifier class clicks click ctr logistic logloss probability",
    "regression": "rating ratings regress regressor squared mse rmse real numeric",
    "count": "counts poisson",
    "ranking": "rank ranker recommend recommendation bpr implicit als wrmf",
}
# Flags that are no training options, and what other programs call them.
FLAGS = {
    "out": "output o output_file save model_out dest",
    "valid": "validation val eval_set eval test dev holdout validation_file",
    "label": "target y label_column target_column response",
    "weight": "weights sample_weight",
    "column": "kind dtype type",
    "columns": "schema spec",
    "min_count": "min_freq min_frequency threshold",
    "format": "type input_format fmt",
    "index_base": "base zero_based one_based offset",
    "positive": "pos_label positive_class positive_label",
    "task": "objective problem type",
    "checkpoint": "checkpoints checkpoint_dir save_dir",
    "resume_from": "resume warm_start init_model init continue model_in pretrained",
    "json": "as_json output_format",
    "events": "log log_file logfile",
    "memory": "max_memory mem ram",
    "spill": "tmp temp temp_dir tmpdir tmp_dir",
    "with": "id ids keep columns",
    "folder": "dir directory path data_dir",
    "like": "encoder model",
    "duplicates": "duplicate",
    "max_features": "n_features num_features max_id",
    "max_line_bytes": "max_line line_length",
    "checkpoint_seconds": "checkpoint_interval",
}
COMMANDS = {
    "train": "fit learn run build",
    "evaluate": "eval test score validate metrics measure",
    "predict": "infer inference apply classify prediction transform",
    "inspect": "info show describe check stats head analyze analyse profile summary",
    "convert": "prepare encode preprocess export",
    "recommend": "rank suggest",
    "similar": "neighbors neighbours nearest",
    "--version": "version",
}


def nearest(name: str, known: Iterable[str], others: Mapping[str, str], cutoff: float = 0.6) -> str | None:
    """Return the known name that others call by this one, or the one spelled most alike; else None.

    others: what else the known names are called, separated by blanks.

    >>> nearest("fit", ["train", "predict"], COMMANDS), nearest("trian", ["train", "predict"], {})
    ('train', 'train')
    """
    names, wanted = [*known], name.lower()
    by_meaning = (own for own, theirs in others.items() if own in names and wanted in theirs.split())
    return next(by_meaning, None) or next(iter(difflib.get_close_matches(wanted, names, 1, cutoff)), None)


def nearest_name(name: str, spellings: Mapping[str, set[str]], known: Iterable[str]) -> str | None:
    """Return the known name of an option, by its aliases; spellings: all names that we have for each option."""
    names = [*known]
    others = {
        one: " ".join([*ours, ALIASES.get(own, "")]) for own, ours in spellings.items() for one in ours & {*names}
    }
    return nearest(name.replace("-", "_"), names, others)


def did_you_mean(near: str | None, otherwise: str = "") -> str:
    """Return the end of a message about an unknown name.

    >>> did_you_mean("train"), did_you_mean(None, "--help lists all"), did_you_mean(None)
    ('; did you mean train?', '; --help lists all', '')
    """
    return f"; did you mean {near}?" if near else otherwise and f"; {otherwise}"
