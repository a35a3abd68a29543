"""Memory as a computation would use it, on tensors that are nothing but sizes.

A `Piece` counts while somebody holds it, as torch's memory does: both live by reference counting, so code that mirrors
a layer line by line takes and gives back memory in the same order. `Tape.backward` walks the record as autograd does,
from the youngest operation to the oldest: the gradients of an operation's inputs appear, then what it had kept goes.

>>> tape = Tape()
>>> x = tape.new(10, 4)
>>> y = tape.op((x,), 10, keeps=(x,))
>>> del x
>>> tape.live, tape.peak
(40, 80)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import no_type_check

# A walk makes thousands of the objects below: a test run that checks every call would take minutes.


@no_type_check
class Piece:
    """Some bytes that are in use until nobody holds them any more."""

    __slots__ = ("bytes", "tape")

    def __init__(self, tape: "Tape", size: int) -> None:
        self.tape, self.bytes = tape, size
        tape.live += size
        tape.peak = max(tape.peak, tape.live)

    def __del__(self) -> None:
        self.tape.live -= self.bytes


class Leaf:
    """A parameter: its weights count elsewhere, its gradient appears here."""

    __slots__ = ("bytes", "gradient")

    def __init__(self, size: int) -> None:
        self.bytes = size
        self.gradient: Piece | None = None


# (tape, gradients of the outputs, bytes of each input or 0 where none is wanted) -> gradients of the inputs
Pull = Callable[["Tape", list[Piece | None], Sequence[int]], list[Piece | None]]


@no_type_check
class Node:
    """An operation that was recorded: where gradients go, what it keeps, how it makes them.

    aside: what it keeps without telling autograd, so that no hook on saved tensors sees it. slopes: the gradients of
    its outputs, as they come in. frame: the computation that it is done again with.
    """

    __slots__ = ("age", "aside", "frame", "kept", "pull", "slopes", "targets")

    def __init__(self, age: int, inputs: Sequence["Value"], kept: list[Piece], aside: list[Piece], pull: Pull) -> None:
        self.age, self.kept, self.aside, self.pull = age, kept, aside, pull
        self.targets = [(value.source, value.slot, value.bytes if value.source else 0) for value in inputs]
        self.slopes: list[Piece | None] = [None]
        self.frame: Frame | None = None


@no_type_check
class Value:
    """A tensor of so many entries, whose memory may be shared with others (views)."""

    __slots__ = ("bytes", "entries", "item", "piece", "slot", "source")

    def __init__(
        self, entries: int, item: int, piece: Piece | None = None, source: Node | Leaf | None = None, slot: int = 0
    ) -> None:
        self.entries, self.item, self.bytes = entries, item, entries * item
        self.piece, self.source, self.slot = piece, source, slot

    def part(self, entries: int) -> "Value":
        """A view of some of it, which stands for the whole where gradients are concerned."""
        return Value(entries, self.item, self.piece, self.source, self.slot)


class Frame:
    """A computation that is done again when its gradients are wanted: only what it was given is kept till then.

    noise: the state of the random numbers, so that dropout falls the same.
    """

    __slots__ = ("again", "given", "nodes", "noise")

    def __init__(self, again: Callable[[Value], Value], given: tuple[Value, ...], noise: Piece) -> None:
        self.again, self.given, self.noise = again, given, noise
        self.nodes: list[Node] = []


NOISE = 5056  # bytes of the state of torch's generator
OUT = Value(0, 0)  # among what an operation keeps: its own result


@no_type_check
@dataclass(eq=False)
class Tape:
    """What is in use now and what was at most; with `learning` a record of the operations."""

    learning: bool = False
    live: int = 0
    peak: int = 0
    nodes: list[Node] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)  # parameters that have a gradient
    ages: Iterator[int] = field(default_factory=count)
    frame: Frame | None = None

    def new(self, entries: int, item: int) -> Value:
        """A tensor that nobody wants a gradient of."""
        return Value(entries, item, Piece(self, entries * item))

    def leaf(self, entries: int, item: int) -> Value:
        """A parameter."""
        return Value(entries, item, None, Leaf(entries * item))

    def scratch(self, *sizes: int) -> None:
        """Bytes that are taken and given back at once."""
        self.peak = max(self.peak, self.live + sum(sizes))

    def op(
        self,
        inputs: Sequence[Value],
        entries: int,
        item: int | None = None,
        *,
        keeps: Sequence[Value | int] = (),
        aside: int = 0,
        pull: Pull | None = None,
        before: int = 0,
        beside: int = 0,
        made: Piece | None = None,
    ) -> Value:
        """A new tensor (or a view, where its memory is `made`), of the first input's precision unless said.

        keeps: what the backward pass will need, tensors or sizes of new ones. before: scratch that is gone when the
        result is there; beside: scratch that is not.
        """
        item = inputs[0].item if item is None else item
        if before:
            self.scratch(before)
        piece = Piece(self, entries * item) if made is None else made
        if beside:
            self.scratch(beside)
        return Value(entries, item, piece, self._node(inputs, keeps, aside, pull or anew(), piece))

    def outputs(
        self, inputs: Sequence[Value], sizes: Sequence[int], item: int, *, keeps: Sequence[Value | int], pull: Pull,
        before: int = 0, beside: int = 0,
    ) -> list[Value]:  # fmt: skip
        """Several tensors of one operation, which lie in one piece of memory."""
        whole = self.op(inputs, sum(sizes), item, keeps=keeps, pull=pull, before=before, beside=beside)
        if isinstance(whole.source, Node):
            whole.source.slopes = [None] * len(sizes)
        return [Value(size, item, whole.piece, whole.source, slot) for slot, size in enumerate(sizes)]

    def _node(
        self, inputs: Sequence[Value], keeps: Sequence[Value | int], aside: int, pull: Pull, out: Piece
    ) -> Node | None:
        kept = [Piece(self, keep) if isinstance(keep, int) else out if keep is OUT else keep.piece for keep in keeps]
        if not self.learning or all(value.source is None for value in inputs):
            return None
        beside = [Piece(self, aside)] if aside else []
        node = Node(next(self.ages), inputs, [piece for piece in kept if piece is not None], beside, pull)
        if self.frame is not None:
            node.kept, node.frame = [], self.frame  # what is kept aside, nobody knows of
        self.nodes.append(node)
        return node

    def checkpoint(self, function: Callable[[Value], Value], given: Value, held: Sequence[Value] = ()) -> Value:
        """function(given), of which nothing but `given` is kept: it is computed again in the backward pass.

        held: what the function needs besides.
        """
        if not self.learning:
            return function(given)
        self.frame, first = Frame(function, (given, *held), Piece(self, NOISE)), len(self.nodes)
        found = function(given)
        self.frame.nodes, self.frame = self.nodes[first:], None
        return found

    def _refill(self, frame: Frame) -> None:
        """The same operations once more, for what they keep."""
        first = len(self.nodes)
        frame.again(frame.given[0])
        for old, new in zip(frame.nodes, self.nodes[first:], strict=True):
            old.kept = new.kept
        del self.nodes[first:]
        frame.nodes = []

    @property
    def saved(self) -> int:
        """Bytes that recorded operations keep, what several of them keep once."""
        kept = [piece for node in self.nodes for piece in node.kept]
        frames = {id(node.frame): node.frame for node in self.nodes if node.frame is not None}.values()
        kept += [value.piece for frame in frames for value in frame.given if value.piece is not None]
        kept += [frame.noise for frame in frames]
        return sum({id(piece): piece.bytes for piece in kept}.values())

    @property
    def aside(self) -> int:
        """Bytes that they keep besides, unseen."""
        return sum(piece.bytes for node in self.nodes for piece in node.aside)

    def backward(self, loss: Value, *, seed: int | None = None) -> None:
        """Gradients of everything, from the loss back; what is kept for them goes on the way.

        seed: bytes of the loss's own gradient, where they are not those of the loss.
        """
        assert isinstance(loss.source, Node)
        loss.source.slopes[loss.slot] = Piece(self, loss.bytes if seed is None else seed)
        waiting, queued = [(-loss.source.age, loss.source)], {loss.source.age}
        self.nodes.clear()
        while waiting:
            node = heappop(waiting)[1]
            for more in self._pulled(node):
                if more.age not in queued:
                    queued.add(more.age)
                    heappush(waiting, (-more.age, more))

    def _pulled(self, node: Node) -> list[Node]:
        """One operation backwards; returns the operations that its gradients go to."""
        if node.frame is not None and node.frame.nodes:
            self._refill(node.frame)
        found = node.pull(self, node.slopes, [size for _, _, size in node.targets])
        node.kept, node.aside, node.slopes, node.frame = [], [], [], None
        for (target, slot, _), gradient in zip(node.targets, found, strict=True):
            if isinstance(target, Leaf) and gradient is not None:
                self._learnt(target, gradient)
            elif isinstance(target, Node) and gradient is not None and target.slopes[slot] is None:
                target.slopes[slot] = gradient
        return [target for target, _, _ in node.targets if isinstance(target, Node)]

    def _learnt(self, leaf: Leaf, gradient: Piece) -> None:
        """The second gradient of a parameter in two places is added into the first."""
        if leaf.gradient is None:
            leaf.gradient = gradient
            self.leaves.append(leaf)


def anew(scratch: int = 0) -> Pull:
    """A tensor for each gradient, all of them beside what came in; `scratch` beside them for a moment."""

    def pull(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
        found = [Piece(tape, size) if size else None for size in sizes]
        tape.scratch(scratch)
        return found

    return pull


def handed_on(tape: Tape, slopes: list[Piece | None], sizes: Sequence[int]) -> list[Piece | None]:
    """The same gradient for every input, as of a sum."""
    return [slopes[0] if size else None for size in sizes]
