"""Bags of subgraphs. A row stands for one (node, subgraph) pair, or in compact bags for many equal ones."""

from esan.bags.bag import Bag as Bag
from esan.bags.io import is_bag_file as is_bag_file
from esan.bags.layer_view import LayerView as LayerView
from esan.bags.loader import Loader as Loader
from esan.ops.edges import Edges as Edges
