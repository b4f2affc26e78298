"""Graphs: the collection that everything works on, how it is read, and named graphs and families."""

from esan.graphs.collection import Graphs as Graphs
from esan.graphs.read import Source as Source
from esan.graphs.read import read as read
