"""esan: subgraph graph neural networks (Equivariant Subgraph Aggregation Networks, ICLR 2022), exact and fast."""

from esan import data as data
from esan import graphs as graphs
from esan import nn as nn
from esan import testing as testing
from esan import train as train
from esan import wl as wl
from esan.bags import Bag as Bag
from esan.bags import Loader as Loader
from esan.nn import ATOMS as ATOMS
from esan.nn import BONDS as BONDS
from esan.nn import Categories as Categories
from esan.nn import OneHot as OneHot
from esan.nn import ds_gnn as ds_gnn
from esan.nn import dss_gnn as dss_gnn
from esan.policies import Augmented as Augmented
from esan.policies import EdgeDeletion as EdgeDeletion
from esan.policies import EgoNets as EgoNets
from esan.policies import NodeDeletion as NodeDeletion
from esan.policies import NodeMarking as NodeMarking
from esan.policies import Policy as Policy
from esan.policies import Sampled as Sampled
from esan.policies import Selection as Selection
from esan.policies import SingleEdges as SingleEdges
from esan.policies import Whole as Whole
from esan.policies import policy_named as policy_named
from esan.train import fit as fit
