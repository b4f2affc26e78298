"""Training: recipes, jobs, records, and the loop that runs them."""

from esan.train.cache import cached_bag as cached_bag
from esan.train.engine import EagerEngine as EagerEngine
from esan.train.engine import Engine as Engine
from esan.train.engine import engine_for as engine_for
from esan.train.job import Job as Job
from esan.train.job import protocol as protocol
from esan.train.loop import run_jobs as run_jobs
from esan.train.objective import Objective as Objective
from esan.train.recipe import Recipe as Recipe
from esan.train.records import Epoch as Epoch
from esan.train.records import Point as Point
from esan.train.records import Record as Record
from esan.train.records import records as records
