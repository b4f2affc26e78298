"""Policies by name: the paper's short names ("ED", "EGO+(3)") and the constructor calls that `repr` prints."""

import re
from collections.abc import Callable
from typing import Any

from esan.checks import shown
from esan.policies.deletion import EdgeDeletion, NodeDeletion
from esan.policies.ego import EgoNets, SingleEdges
from esan.policies.marking import NodeMarking, Whole
from esan.policies.policy import Policy
from esan.policies.wrappers import Augmented, Sampled

#: The policy of each of the paper's names; the argument is the number in parentheses after it.
NAMES: dict[str, Callable[..., Policy]] = {
    "ND": lambda number=1: NodeDeletion(number),
    "ED": lambda: EdgeDeletion(),
    "EGO": lambda number: EgoNets(number),
    "EGO+": lambda number: EgoNets(number, marked=True),
    "SE": lambda: SingleEdges(),
    "NM": lambda: NodeMarking(),
    "identity": lambda: Whole(),
}
_KNOWN = {name.lower(): name for name in NAMES}
_CLASSES: dict[str, Callable[..., Policy]] = {
    c.__name__: c for c in (NodeDeletion, EdgeDeletion, EgoNets, SingleEdges, NodeMarking, Whole)
}
#: No name is longer: wrappers within wrappers are read by recursion.
_LONGEST = 1000
_SHORT = re.compile(
    r"(?P<name>[A-Za-z]+\+?)(?:\((?P<number>\d+)\))?(?P<hat>\^?)(?:@(?P<fraction>[^@%]+)|-(?P<percent>\d+)%)?"
)
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\)")
_ARGUMENT = re.compile(r"(?P<name>\w+)=(?P<value>True|False|\d+)")


def policy_named(text: str, *, hops: int = 2) -> Policy:
    """The policy called `text`; the one grammar for policies in recipes, files and on the command line.

    Known are ND, ND(k), ED, EGO(k), EGO+(k), SE, NM (node marking) and identity, in capital letters or not; "^" behind
    a name adds the graph itself, and "@0.2" or "-20%" behind it all samples a fifth of the bag: "EGO+(3)^@0.2". `repr`
    of a policy is read as well.

    Args:
        text: the name.
        hops: the depth of ego-networks whose name says none.
    """
    known = None
    if isinstance(text, str) and len(text) <= _LONGEST:
        known = _from_repr(text.strip()) or _from_short_name(text.strip(), hops)
    if known is None:
        raise ValueError(
            f"Expected the name of a policy (got {shown(text)}). Known: {', '.join(NAMES)}; EGO(2) sets the hops, "
            "ND(2) the nodes deleted, ^ behind a name adds the graph itself, @0.2 samples a fifth of the bag."
        )
    return known


def short_name(policy: Policy) -> str:
    """The paper's name of a policy, such as "ND", "EGO+(2)" or "ED^"; its `repr` where it has none."""
    return _short_name(policy) or repr(policy)


def policy_name(policy: Policy) -> str:
    """The name that `policy_named` reads back as this policy: the paper's if there is one, else its `repr`.

    A policy of one's own has none; it is refused.
    """
    name = _short_name(policy)
    if name is None and isinstance(policy_called(repr(policy)), str):
        raise ValueError(
            f"Expected a policy that esan can name in a file (got {shown(policy)}). With a policy of your own, build "
            "bags with Bag.of and train with Loader."
        )
    return repr(policy) if name is None else name


def _short_name(policy: Policy) -> str | None:
    """The paper's name of a policy; None where it has none, as a subclass of one's own."""
    if type(policy) is Sampled:
        inner = None if type(policy.policy) is Sampled else _short_name(policy.policy)
        return None if inner is None else f"{inner}@{policy.fraction!r}"
    if type(policy) is Augmented:
        inner = _short_name(policy.policy) if type(policy.policy) not in (Augmented, Sampled) else None
        return None if inner is None else f"{inner}^"
    if type(policy) is NodeDeletion:
        return "ND" if policy.k == 1 else f"ND({policy.k})"
    if type(policy) is EgoNets:
        return f"EGO{'+' * policy.marked}({policy.hops})"
    names: dict[type[Policy], str] = {EdgeDeletion: "ED", SingleEdges: "SE", NodeMarking: "NM", Whole: "identity"}
    return names.get(type(policy))


def policy_called(text: str) -> Policy | str:
    """The policy whose `repr` is `text`; the text itself if it is no policy of esan."""
    try:
        known = policy_named(text)
    except ValueError:
        return text
    return known if repr(known) == text else text


def as_policy(policy: Policy | str) -> Policy:
    """A policy as it is, or the one of that name."""
    if isinstance(policy, str):
        return policy_named(policy)
    if not isinstance(policy, Policy):
        raise TypeError(
            f"Expected a policy (got {shown(policy)}). Pass an object, e.g. esan.EgoNets(hops=2), or a name, "
            "e.g. 'EGO(2)'."
        )
    return policy


def _from_short_name(text: str, hops: int) -> Policy | None:
    match = _SHORT.fullmatch(text)
    name = None if match is None else _KNOWN.get(match["name"].lower())
    if match is None or name is None:
        return None
    number = _whole(match["number"]) if match["number"] else hops if name.startswith("EGO") else None
    try:
        policy = NAMES[name]() if number is None else NAMES[name](number)
    except TypeError:
        # A number out of range raises ValueError in the policy itself.
        return None
    policy = Augmented(policy) if match["hat"] else policy
    if match["fraction"] is None and match["percent"] is None:
        return policy
    share = _share(match["fraction"]) if match["fraction"] else _whole(match["percent"]) / 100
    return None if share is None else Sampled(policy, share)


def _whole(digits: str) -> int:
    # Python itself reads no more than 4,300 digits; a policy refuses far smaller numbers.
    return int(digits[:30])


def _share(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _from_repr(text: str) -> Policy | None:
    match = _CALL.fullmatch(text)
    if match is None:
        return None
    name, arguments = match["name"], match["arguments"]
    if name == "Augmented" and (inner := _from_repr(arguments.removeprefix("policy="))):
        return Augmented(inner)
    if name == "Sampled":
        inside, _, fraction = arguments.removeprefix("policy=").rpartition(", fraction=")
        inner, share = _from_repr(inside), _share(fraction)
        return None if inner is None or share is None else Sampled(inner, share)
    if name not in _CLASSES:
        return None
    values: dict[str, Any] = {}
    for assignment in arguments.split(", ") if arguments else []:
        argument = _ARGUMENT.fullmatch(assignment)
        if argument is None:
            return None
        text = argument["value"]
        values[argument["name"]] = text == "True" if text in ("True", "False") else _whole(text)
    try:
        return _CLASSES[name](**values)
    except TypeError:
        return None
