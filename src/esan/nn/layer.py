"""`DSLayer`, `DSSLayer`: sums of terms, which are messages in each subgraph, and for DSS one pass shared by all."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from esan.bags import Bag, LayerView
from esan.bags.dedup import DedupLayerView
from esan.nn.convs.paper_convs import Conv, EdgeFeatures, GINConv, GINEConv, WeightedMLP
from esan.nn.execution.capabilities import stackable, usual_activation
from esan.nn.execution.replay import in_part, may_replay, replaying
from esan.nn.linear import Linear
from esan.nn.norm import BatchNorm, is_relu, on_rows, why_rows_mix
from esan.nn.terms import Inside, Shared, SharedByOthers, Term
from esan.ops.dispatch import is_plain, never_compiled
from esan.ops.gin import GINBranch, SharedBranch, check_shapes, gin_layer, implementation_for
from esan.ops.norm import NormState, Summand, normalised_sum

#: How the features of a node are pooled over the bag; "others" is the sum without the subgraph itself.
BAG_POOLS = ("sum", "mean", "max", "others")


class Layer(nn.Module):
    r"""A sum of terms with a norm each: :math:`h' = \sigma\big(\sum_k \mathrm{norm}_k(\mathrm{term}_k(h))\big)`.

    A subclass says what its terms are. Where all of them are unchanged GIN convolutions, the whole layer is one fused
    operator (`esan.ops.gin`); else every module is called, and their results are combined here.
    """

    act: Callable[[Tensor], Tensor]

    @property
    def terms(self) -> tuple[Term, ...]:
        """The summands, from the modules that the layer has now; the first has one row per row of the bag."""
        raise NotImplementedError

    @property
    def why_literal(self) -> str | None:
        """Why the layer is not exact on a compact bag; None if it is."""
        if self.act is None:
            raise TypeError("Expected an activation (got None). Put torch.nn.Identity() there.")
        return next((why for term in self.terms if (why := term.why_literal)), None) or why_rows_mix(self.act)

    @never_compiled
    def forward(self, h: Tensor, bag: Bag, view: LayerView) -> Tensor:
        """Rows → rows of a view; h has the rows of this view, or of an earlier one."""
        if not replaying(bag):
            return self._as_one(bag, view, h)
        if may_replay(self):
            return in_part(self._as_one, [self], bag, view, h, if_it_waits=self._around_convs)
        return self._around_convs(bag, view, h)

    def _around_convs(self, bag: Bag, view: LayerView, h: Tensor) -> Tensor:
        """The convolutions are called; what goes into them is replayed, and their sum. A layer that is one operator
        stays one: its rows may be padded, and those of multiplicity 0 unwritten, which convolutions must not see.
        """
        fused = self._fused(h, bag, view)
        if fused is not None:
            return fused
        values = self._terms_apart(bag, view, h)
        parts = [part for part in (*(term.norm for term in self.terms), self.act) if isinstance(part, nn.Module)]
        unchanged = all(is_plain(part, type(part)) for part in parts) and usual_activation(self.act)
        return in_part(self._sum, parts, bag, view, *values) if unchanged else self._sum(bag, view, *values)

    def _terms_apart(self, bag: Bag, view: LayerView, h: Tensor) -> list[Tensor]:
        """The outputs of the convolutions; what goes into them is replayed as one part, with the edge features."""
        terms = self.terms
        ahead = [term for term in terms if may_replay(*getattr(term.conv, "encoders_ahead", ()))]

        def inputs(bag: Bag, view: LayerView, h: Tensor) -> tuple[Tensor, ...]:
            return *self._inputs(bag, view, h), *(term.edge_features(h, bag, view) for term in ahead)

        encoders = [encoder for term in ahead for encoder in term.conv.encoders_ahead]
        given = in_part(inputs, encoders, bag, view, h)
        features = dict(zip(ahead, given[len(terms) :], strict=True))
        return [term(x, bag, view, features.get(term)) for term, x in zip(terms, given, strict=False)]

    def _as_one(self, bag: Bag, view: LayerView, h: Tensor) -> Tensor:
        fused = self._fused(h, bag, view)
        if fused is not None:
            return fused
        inputs = self._inputs(bag, view, h)
        return self._sum(bag, view, *(term(x, bag, view) for term, x in zip(self.terms, inputs, strict=True)))

    def _inputs(self, bag: Bag, view: LayerView, h: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG002
        """The rows that the convolution of each term is applied to."""
        h = view.expand(h)
        return tuple(term.reads(h, view) for term in self.terms)

    def _sum(self, bag: Bag, view: LayerView, *values: Tensor) -> Tensor:
        """From what the convolutions gave to what the layer gives."""
        terms = self.terms
        others = terms[1:]
        usual = len(others) <= 1 and not any(term.per_row for term in others) and is_relu(self.act)
        plain = usual and all(is_plain(term.norm, BatchNorm) for term in terms)
        if plain and _distinct(_statistics(term.norm.state for term in terms)):
            summands = [
                Summand(x, term.norm.state, term.multiplicity(bag, view)) for term, x in zip(terms, values, strict=True)
            ]
            return normalised_sum(summands[0], summands[1] if others else None, view)
        total = None
        for term, value in zip(terms, values, strict=True):
            normed = on_rows(term.norm, value, term.multiplicity(bag, view))
            normed = normed if term.per_row else view.broadcast(normed)
            total = normed if total is None else total + normed
        assert total is not None
        return view.zero_empty_rows(self.act(total))

    # -- as one fused operator -----------------------------------------------------------------------------------

    def fused_by(self, like: Tensor, bag: Bag, view: LayerView) -> Any:
        """The module that computes the layer as one operator on rows like these; None where its modules are called."""
        return None if (branches := self._branches(bag)) is None else implementation_for(like, branches, view)

    def _branches(self, bag: Bag) -> list[GINBranch] | None:
        """The terms as plain tensors, if the layer is a sum that the operator supports."""
        terms = self.terms
        shares = len(terms) == 2 and isinstance(terms[1], Shared) and terms[1].pool in ("sum", "mean")
        if not is_relu(self.act) or not (len(terms) == 1 or shares):
            return None
        branches = [branch for term in terms if (branch := _branch(term.conv, term.norm, bag)) is not None]
        # A norm that is used twice updates its statistics once after the other.
        if len(branches) < len(terms) or not _distinct(_statistics(norm for b in branches for norm in b.norms)):
            return None
        return branches

    def _fused(self, h: Tensor, bag: Bag, view: LayerView) -> Tensor | None:
        branches = self._branches(bag)
        fast = None if branches is None else implementation_for(h, branches, view)
        if branches is None or fast is None:
            return None
        inside, *others = branches
        shared = None
        if others:
            term = self.terms[1]
            assert isinstance(term, Shared)
            shared = SharedBranch(others[0], bag.shared.between_nodes(term.adjacency), bag.node_multiplicity, term.pool)
        # Hooks on the layer may read its result, and the gradient of it.
        chained = not view.plain and (is_plain(self, DSLayer) or is_plain(self, DSSLayer))
        return gin_layer(fast, h, inside, shared, view, bag.layer_view_with_rows(h.size(0), view), chained)


def _statistics(norms: Iterable[NormState]) -> list[Any]:
    """What norms that track the same statistics have in common."""
    return [tracked for norm in norms for tracked in (norm.num_batches, norm.running_mean, norm.running_var)]


def _distinct(things: Iterable[Any]) -> bool:
    """Whether no object occurs twice; None does not count."""
    numbers = [id(thing) for thing in things if thing is not None]
    return len(set(numbers)) == len(numbers)


def _branch(conv: Any, norm: Any, bag: Bag) -> GINBranch | None:
    """A GIN convolution and its norm as plain tensors; None if it is another one, or a part of it was changed."""
    if not (is_plain(conv, GINConv) or is_plain(conv, GINEConv)) or not is_plain(norm, BatchNorm):
        return None
    mlp = conv.mlp
    parts: list[tuple[Any, type[nn.Module]]] = [(mlp, WeightedMLP)]
    if is_plain(mlp, WeightedMLP):
        parts += [(mlp.first, Linear), (mlp.norm, BatchNorm), (mlp.second, Linear)]
    if not all(is_plain(part, kind) for part, kind in parts) or mlp.first.bias is None or mlp.second.bias is None:
        return None
    features = None
    if isinstance(conv, GINEConv):

        def features(h: Tensor) -> Any:
            return EdgeFeatures.for_messages(conv.edge_encoder, bag.graphs.edge_attr, h, bag.cache)

    return GINBranch(
        features=features,
        eps=conv.eps,
        w1=mlp.first.weight,
        b1=mlp.first.bias,
        inner=mlp.norm.state,
        w2=mlp.second.weight,
        b2=mlp.second.bias,
        outer=norm.state,
    )


@stackable
class DSLayer(Layer):
    r"""Message passing inside each subgraph: :math:`h'_i = \sigma(\mathrm{norm}(L^1(A_i, h_i)))`.

    Args:
        inside: L1.
        norm: over the rows, weighted by their multiplicities.
        act: σ.
    """

    def __init__(self, inside: Conv, norm: nn.Module, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inside, self.norm, self.act = inside, norm, act

    @property
    def terms(self) -> tuple[Term, ...]:
        return (Inside(self.inside, self.norm),)

    def on_representatives(self, h: Tensor, bag: Bag, view: DedupLayerView) -> Tensor:
        """`forward` on one row per representative, which stands for all rows that are equal to it."""
        branches = self._branches(bag)
        assert branches is not None
        check_shapes(view.fast, h, branches)
        return view.zero_empty_rows(view.fast.layer(h, branches[0], view))


@stackable
class DSSLayer(Layer):
    r"""Message passing inside each subgraph, plus one pass shared by all of them (Eq. 1).

    .. math:: h'_i = \sigma\Big(\mathrm{norm}_1\big(L^1(A_i, h_i)\big)
              + \mathrm{norm}_2\big(L^2(\operatorname{agg}_j A_j, \operatorname{agg}_j h_j)\big)\Big)

    Permuting the subgraphs or the nodes of the input permutes the output alike
    (`esan.testing.assert_equivariant`).

    Args:
        inside: L1, acts within each subgraph.
        norm: over the rows, weighted by their multiplicities.
        shared: L2, acts once on the whole graph; its answer is added to every subgraph.
        shared_norm: over what L2 gives.
        act: σ.
        bag_pool: the aggregator of features, from `BAG_POOLS`; with "others", L2 acts once in every subgraph i, on
            :math:`\sum_{j \ne i} h_j`.
        adjacency: the aggregator of adjacency matrices, from `ADJACENCIES`.
    """

    def __init__(
        self,
        inside: Conv,
        norm: nn.Module,
        shared: Conv,
        shared_norm: nn.Module,
        act: Callable[[Tensor], Tensor],
        bag_pool: str = "mean",
        adjacency: str = "max",
    ) -> None:
        super().__init__()
        self.inside, self.norm = inside, norm
        self.shared, self.shared_norm = shared, shared_norm
        self.act, self.bag_pool, self.adjacency = act, bag_pool, adjacency

    @property
    def terms(self) -> tuple[Term, ...]:
        inside = Inside(self.inside, self.norm)
        if self.bag_pool == "others":
            return inside, SharedByOthers(self.shared, self.shared_norm, self.adjacency)
        return inside, Shared(self.shared, self.shared_norm, self.bag_pool, self.adjacency)

    def extra_repr(self) -> str:
        return f"bag_pool={self.bag_pool!r}, adjacency={self.adjacency!r}"
