"""Bags of subgraphs: stored as weighted rows, literal or compact."""

from esan.bags.bag import Bag as Bag
from esan.bags.files import is_bag_file as is_bag_file
from esan.bags.loader import Loader as Loader
from esan.bags.stage import Stage as Stage
from esan.ops.edges import Arcs as Arcs
