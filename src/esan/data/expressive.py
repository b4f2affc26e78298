"""The sets that measure expressive power: EXP, CEXP and CSL."""

import numpy as np

from esan.data.arrays import arrays_in, laid_in
from esan.data.found import Found
from esan.data.laid import column
from esan.data.places import Places


def find_exp(places: Places) -> Found:
    plain = places.find("EXP/exp.npz")
    assert plain is not None
    laid = laid_in(arrays_in(plain), "", plain)
    assert laid.x is not None and laid.y is not None
    laid.x, laid.y = column(laid.x), laid.y.astype(np.int64)
    return Found(laid, str(plain))


def find_csl(places: Places) -> Found:
    plain = places.find("CSL/csl.npz")
    assert plain is not None
    laid = laid_in(arrays_in(plain), "", plain)
    assert laid.y is not None
    laid.x, laid.y = column(laid.degree()), laid.y.astype(np.int64)
    return Found(laid, str(plain))
