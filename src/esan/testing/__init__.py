"""Checkers of the laws that bags, networks and policies obey; run them on your own."""

from esan.testing.action import acted as acted
from esan.testing.action import relabelled as relabelled
from esan.testing.equivariance import assert_equivariant as assert_equivariant
from esan.testing.equivariance import assert_invariant as assert_invariant
from esan.testing.execution import assert_same_execution as assert_same_execution
from esan.testing.obedience import assert_obeyed as assert_obeyed
from esan.testing.policy import assert_policy_invariant as assert_policy_invariant
