"""Graphs: the collection that everything works on, how it is read, and named graphs and families."""

from esan.graphs.collection import Graphs as Graphs
from esan.graphs.families import StrongRegularity as StrongRegularity
from esan.graphs.families import atlas as atlas
from esan.graphs.families import random_regular as random_regular
from esan.graphs.families import strong_regularity as strong_regularity
from esan.graphs.families import strongly_regular as strongly_regular
from esan.graphs.files import load_graphs as load_graphs
from esan.graphs.graph6 import from_graph6 as from_graph6
from esan.graphs.graph6 import read_graph6 as read_graph6
from esan.graphs.graph6 import to_graph6 as to_graph6
from esan.graphs.hard_pairs import HARD_PAIRS as HARD_PAIRS
from esan.graphs.hard_pairs import hard_pair as hard_pair
from esan.graphs.named import complete as complete
from esan.graphs.named import csl as csl
from esan.graphs.named import cycle as cycle
from esan.graphs.named import disjoint_union as disjoint_union
from esan.graphs.named import path as path
from esan.graphs.named import rook as rook
from esan.graphs.named import shrikhande as shrikhande
from esan.graphs.named import star as star
from esan.graphs.named import undirected as undirected
from esan.graphs.permute import permuted as permuted
from esan.graphs.read import Source as Source
from esan.graphs.read import read as read
from esan.graphs.things import graph_of as graph_of
