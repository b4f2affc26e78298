"""Bags of subgraphs: stored as weighted rows, literal or compact."""

from esan.bags.bag import Bag as Bag
from esan.bags.io import is_bag_file as is_bag_file
from esan.bags.layer_view import Stage as Stage
from esan.bags.loader import Loader as Loader
from esan.ops.edges import Arcs as Arcs
