"""Subgraph selection policies: graph → selection."""

from esan.policies.deletion import EdgeDeletion as EdgeDeletion
from esan.policies.deletion import NodeDeletion as NodeDeletion
from esan.policies.ego import EgoNets as EgoNets
from esan.policies.ego import SingleEdges as SingleEdges
from esan.policies.marking import NodeMarking as NodeMarking
from esan.policies.marking import Whole as Whole
from esan.policies.names import as_policy as as_policy
from esan.policies.names import policy_called as policy_called
from esan.policies.names import policy_named as policy_named
from esan.policies.policy import Policy as Policy
from esan.policies.selected import SelectedData as SelectedData
from esan.policies.selected import checked_source as checked_source
from esan.policies.selected import read_carried as read_carried
from esan.policies.selection import Selection as Selection
from esan.policies.wrappers import Augmented as Augmented
from esan.policies.wrappers import Sampled as Sampled
