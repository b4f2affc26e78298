"""Data: the sets of the paper by name, a user's own graphs, and splits."""

from esan.data.custom import own as own
from esan.data.dataset import Dataset as Dataset
from esan.data.dataset import SkippedLine as SkippedLine
from esan.data.dataset import Split as Split
from esan.data.dataset import Task as Task
from esan.data.scaffold_split import scaffold as scaffold
from esan.data.sets.catalogue import load as load
from esan.data.sets.catalogue import names as names
from esan.data.sets.folders import cache_folder as cache_folder
from esan.data.sets.folders import data_root as data_root
from esan.data.splits import check_split as check_split
from esan.data.splits import given as given
from esan.data.splits import random as random
from esan.data.splits import stratified_folds as stratified_folds
