"""Training: recipes, jobs, records, and the loop that runs them."""

from esan.train.job import Job as Job
from esan.train.job import protocol as protocol
from esan.train.recipe import Recipe as Recipe
from esan.train.records import Epoch as Epoch
from esan.train.records import Point as Point
from esan.train.records import Record as Record
from esan.train.records import records as records
