"""The tests by name, and what each needs: a rule, and a policy or none."""

from dataclasses import dataclass

from esan.checks import shown
from esan.policies import EdgeDeletion, Policy, Whole, as_policy
from esan.wl.fwl import FWLRefinement
from esan.wl.refinement import ColourRefinement
from esan.wl.subgraph_wl import DSRefinement, DSSRefinement, ExcludingRefinement


@dataclass(frozen=True)
class Test:
    """A Weisfeiler-Leman test.

    Attributes:
        name: what users call it.
        refinement: the rule that refines colours.
        subgraphs: whether it works on a bag, so needs a policy; otherwise the bag is the graph itself.
        couples: whether a cell is an ordered couple of nodes instead of a node.
    """

    name: str
    refinement: type[ColourRefinement]
    subgraphs: bool
    couples: bool


TESTS = {
    test.name: test
    for test in (
        Test("1", DSRefinement, subgraphs=False, couples=False),
        Test("ds", DSRefinement, subgraphs=True, couples=False),
        Test("dss", DSSRefinement, subgraphs=True, couples=False),
        Test("dss-excluding", ExcludingRefinement, subgraphs=True, couples=False),
        Test("2-fwl", FWLRefinement, subgraphs=False, couples=True),
        Test("ds-2-fwl", FWLRefinement, subgraphs=True, couples=True),
    )
}


def test_named(name: str) -> Test:
    # A value that cannot be hashed is no key, and no name either.
    if not isinstance(name, str) or name not in TESTS:
        raise ValueError(f"Expected the name of a test (got {shown(name)}). Known: {', '.join(TESTS)}.")
    return TESTS[name]


def policy_for(test: Test, policy: Policy | str | None) -> Policy:
    """The policy of a test: the one given, edge deletion if none is, or the bag {G} for a test of the graph alone."""
    if not test.subgraphs:
        if policy is not None:
            raise ValueError(
                f'Expected no policy for the test "{test.name}", which sees the graph alone (got {shown(policy)}). '
                'Leave it out, or use the test "ds" or "dss".'
            )
        return Whole()
    policy = EdgeDeletion() if policy is None else as_policy(policy)
    if policy.random:
        raise ValueError(
            f"Expected a policy that draws nothing (got {policy!r}): two samples of one graph may differ, so a test "
            "would separate a graph from itself. Use the policy that is sampled from."
        )
    return policy
