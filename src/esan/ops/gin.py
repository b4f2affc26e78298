"""A whole layer of GIN convolutions as one operator: sums of messages, MLPs, norms, their sum and ReLU."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from esan.ops.dispatch import autocasts, implementation
from esan.ops.edges import Edges, EdgeTypeFeatures
from esan.ops.norm import NormState
from esan.ops.rows import RowView
from esan.ops.segments import RowRanges
from esan.ops.shape_errors import misfit


@dataclass(frozen=True, eq=False)
class GINBranch:
    r"""One summand of a layer: :math:`\mathrm{norm}_2(W_2\,\mathrm{ReLU}(\mathrm{norm}_1(W_1 a + b_1)) + b_2)`, with a
    the sum of messages :math:`a_v = (1 + \epsilon)\, x_v + \sum_{u \to v} \mathrm{ReLU}(x_u + e_{uv})`.

    Attributes:
        features: rows → e, for messages of that width; None for no edge features.
        eps: ε.
        w1: the first matrix; a leading dimension is that of several networks, here and below.
        b1: its bias.
        inner: the norm inside the MLP.
        w2: the second matrix.
        b2: its bias.
        outer: the norm after the MLP.
    """

    features: Callable[[Tensor], Tensor | EdgeTypeFeatures] | None
    eps: Tensor
    w1: Tensor
    b1: Tensor
    inner: NormState
    w2: Tensor
    b2: Tensor
    outer: NormState

    @property
    def own(self) -> Tensor:
        """1 + ε: computed where it is read, since branches are also made to ask what supports them."""
        return 1 + self.eps

    @property
    def matrices(self) -> tuple[Tensor, Tensor]:
        return self.w1, self.w2

    @property
    def norms(self) -> tuple[NormState, NormState]:
        return self.inner, self.outer


@dataclass(frozen=True, eq=False)
class SharedBranch:
    """The summand that all subgraphs share.

    Attributes:
        branch: its parameters.
        edges: between nodes.
        multiplicity: how often each node counts; None for once.
        pool: how rows are pooled over the bag, "sum" or "mean".
    """

    branch: GINBranch
    edges: Edges
    multiplicity: Tensor | None
    pool: str


class LayerRows(RowView, Protocol):
    """What the operator also reads of the rows that it computes."""

    row_ranges: RowRanges | None

    @property
    def edges(self) -> Edges: ...
    def edges_from(self, x_rows: int) -> Edges: ...


def check_shapes(fast: Any, h: Tensor, branches: list[GINBranch]) -> None:
    """Raise unless rows, matrices and norms fit one another: kernels compute addresses from these sizes.

    Args:
        fast: the implementation, which may want rows padded.
        h: the rows that are read.
        branches: of the layer; their sum is computed, so they have one width.
    """
    result = branches[0].w2.size(-2)
    for branch in branches:
        (hidden, given), (width, inner) = branch.w1.shape[-2:], branch.w2.shape[-2:]
        if h.size(-1) not in (given, aligned_width(fast, given)):
            raise misfit(f"rows of {given} columns, as the MLP of the layer takes them", f"{h.size(-1)}")
        if inner != hidden or branch.b1.size(-1) != hidden:
            raise misfit(f"a second linear layer of an MLP that takes {hidden} columns, as the first gives", f"{inner}")
        if width != result or branch.b2.size(-1) != width:
            raise misfit(f"terms of a layer that all have {result} columns", f"{width}")
        branch.inner.check_width(hidden)
        branch.outer.check_width(width)


def implementation_for(like: Tensor, branches: list[GINBranch], view: LayerRows) -> Any:
    """The module that computes a layer of these branches as one operator on rows like these; None if there is none."""
    weights = [matrix for branch in branches for matrix in branch.matrices]
    fast = None if autocasts(like) else implementation("gin", like, *weights)
    return fast if fast is not None and fast.supports(like, branches, view) else None


def gin_layer(
    fast: Any, h: Tensor, inside: GINBranch, shared: SharedBranch | None, view: LayerRows, given: RowView, chained: bool
) -> Tensor:
    r""":math:`\mathrm{ReLU}(\mathrm{branch}_1(h_{v,s}) + \mathrm{branch}_2(\mathrm{pool}_s h_{v,s}))`, 0 in empty rows.

    The reference is `esan.nn.Layer`, which calls its modules one after another.

    Args:
        fast: `implementation_for` these branches.
        h: rows of `given`.
        inside: the branch of the rows.
        shared: the branch of what all subgraphs share; None for none.
        view: the rows that are computed.
        given: the rows that are read, which may be fewer.
        chained: whether only the next layer reads the result, so that it may compute its gradient in a fused form.
    """
    check_shapes(fast, h, [inside] if shared is None else [inside, shared.branch])
    if h.size(0) != given.num_rows:
        raise misfit(f"{view.num_rows:,} rows, or those of an earlier layer", f"{h.size(0):,}")
    return fast.layer(h, inside, shared, view, given, chained)


def aligned_width(fast: Any, width: int) -> int:
    """The width that an implementation wants input rows of this width padded to with zeros."""
    return width if fast is None or not hasattr(fast, "aligned_width") else fast.aligned_width(width)


def without_fused_gradient(h: Tensor) -> Tensor:
    """The rows, marked as read by more than the next layer: it must not compute their gradient in a fused form."""
    h.__dict__.pop("_esan_fused_gradient", None)
    return h
