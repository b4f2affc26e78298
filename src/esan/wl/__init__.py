"""Weisfeiler-Leman tests: 1-WL, DS-WL, DSS-WL and 2-FWL, exact, for two graphs or for a whole collection."""

from esan.wl.advising.advice import Advice as Advice
from esan.wl.advising.advice import Option as Option
from esan.wl.advising.advice import SkippedPolicy as SkippedPolicy
from esan.wl.advising.advice_plot import plot_advice as plot_advice
from esan.wl.advising.advise import advise as advise
from esan.wl.colouring import Colouring as Colouring
from esan.wl.colouring import colouring as colouring
from esan.wl.colouring import colourings as colourings
from esan.wl.drawing.draw_refinement import draw_refinement as draw_refinement
from esan.wl.history import History as History
from esan.wl.history import Meanings as Meanings
from esan.wl.history import NodeMultisets as NodeMultisets
from esan.wl.partition import classes as classes
from esan.wl.registry import TESTS as TESTS
from esan.wl.separation import Verdict as Verdict
from esan.wl.separation import separates as separates
from esan.wl.witness import Witness as Witness
