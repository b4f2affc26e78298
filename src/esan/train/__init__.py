"""Training: recipes, jobs, records, the loop that runs them, and what it gives."""

from esan.train.cache import cached_bag as cached_bag
from esan.train.engine import EagerEngine as EagerEngine
from esan.train.engine import Engine as Engine
from esan.train.engine import engine_for as engine_for
from esan.train.fit import fit as fit
from esan.train.fitted import Fitted as Fitted
from esan.train.job import Job as Job
from esan.train.job import protocol as protocol
from esan.train.loop import run_jobs as run_jobs
from esan.train.named import find_recipe as find_recipe
from esan.train.named import named as named
from esan.train.named import names as names
from esan.train.named import paper_table as paper_table
from esan.train.named import paper_value as paper_value
from esan.train.objective import Objective as Objective
from esan.train.predictions import Predictions as Predictions
from esan.train.recipe import Recipe as Recipe
from esan.train.records import Epoch as Epoch
from esan.train.records import Point as Point
from esan.train.records import Record as Record
from esan.train.records import records as records
from esan.train.selection import Spread as Spread
from esan.train.selection import Summary as Summary
from esan.train.selection import summary as summary
