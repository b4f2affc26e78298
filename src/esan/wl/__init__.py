"""Weisfeiler-Leman tests: 1-WL, DS-WL, DSS-WL and 2-FWL, exact, for two graphs or for a whole collection."""

from esan.wl.colouring import Colouring as Colouring
from esan.wl.colouring import colouring as colouring
from esan.wl.colouring import colourings as colourings
from esan.wl.kinds import TESTS as TESTS
from esan.wl.partition import classes as classes
from esan.wl.separation import Verdict as Verdict
from esan.wl.separation import separates as separates
