"""Whole files of libsvm and libffm text."""

import functools

import numpy as np

from rafm.read.libsvm.reader import TextRows, iterate_rows

iterate_libffm = functools.partial(iterate_rows, has_fields=True)


def joined(chunks, has_fields=False):
    """Concatenate chunks of rows; there may be none."""
    chunks = list(chunks)
    offsets = np.cumsum([0, *(part.indices.size for part in chunks)])
    indptr = [part.indptr[1:] + offset for part, offset in zip(chunks, offsets)]
    kinds = {"labels": np.float32, "indices": np.int64, "values": np.float32, "lines": np.int64, "fields": np.int32}

    def column(name):
        return np.concatenate([np.zeros(0, kinds[name]), *(getattr(part, name) for part in chunks)])

    fields = column("fields") if has_fields else None
    starts = np.concatenate([np.zeros(1, np.int64), *indptr])
    return TextRows(column("labels"), starts, column("indices"), column("values"), 1, column("lines"), fields)


def read_libsvm(path, **options):
    return joined(iterate_rows(path, **options))


def read_libffm(path, **options):
    return joined(iterate_libffm(path, **options), has_fields=True)
