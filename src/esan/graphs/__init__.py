"""Graphs: the collection that everything works on, how it is read, and named graphs and families."""

from esan.graphs.collection import Graphs as Graphs
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
