"""A faster Triton interpreter: without what it prepares or computes more than once or never uses.

Results are the same. It is for processes that only interpret kernels: Triton's language stays patched. Parts with
other signatures than those known here are left unchanged.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from inspect import signature
from math import copysign
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

#: The names of numbers that need no cast where both sides of an operation have them; of these, the whole ones.
_WHOLE = frozenset({"int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_SAME = _WHOLE | {"fp32", "fp64"}


def speed_up_interpreter() -> None:
    if hasattr(interpreter, "_patch_lang") and hasattr(interpreter, "_LangPatchScope"):
        interpreter._patch_lang = _once(interpreter._patch_lang)
    if hasattr(interpreter, "_get_np_dtype"):
        interpreter._get_np_dtype = _looked_up(interpreter._get_np_dtype)
    builder: Any = getattr(interpreter, "interpreter_builder", None)
    options: Any = getattr(builder, "options", None)
    if getattr(options, "sanitize_overflow", False) and not options.debug:
        # Every sum of whole numbers is computed again in 64 bits, for an assertion that only debugging makes.
        builder.options = replace(options, sanitize_overflow=False)
    semantic: Any = getattr(interpreter, "interpreter_semantic", None)
    for place, name, names, faster in (
        (getattr(interpreter, "InterpretedFunction", None), "rewrite", "self", _signed),
        (interpreter, "_patch_attr", "obj name member builder scope", _called_at_once),
        (tl.block_type, "__init__", "self element_ty shape", _remembered_block),
        (tl.tensor, "__init__", "self handle type", _remembered_tensor),
        (tl.core, "_unwrap_if_constexpr", "o", _unwrapped_by_kind),
        (semantic, "cast", "input dst_ty fp_downcast_rounding", _cast_from_another),
        (semantic, "broadcast_impl_value", "lhs rhs", _remembered_shapes),
        (
            semantic,
            "binary_op_type_checking_impl",
            "lhs rhs allow_lhs_ptr allow_rhs_ptr arithmetic_check div_or_mod",
            _checked_by_kind,
        ),
    ):
        made: Any = getattr(place, name, None)
        if made is not None and [*signature(made).parameters] == names.split():
            setattr(place, name, faster(made))


def _once(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A part of the language that a function of a kernel sees is the interpreter's from then on."""
    seen: set[int] = set()

    @cache
    def parts_of(function: Any) -> frozenset[int]:
        modules = {id(value) for value in function.__globals__.values() if isinstance(value, ModuleType)}
        return frozenset(modules & {id(tl), id(tl.core)})

    def patched(function: Any) -> Any:
        parts = parts_of(function)
        if not parts or not parts <= seen:
            patch(function)
            seen.update(parts)
        return interpreter._LangPatchScope()

    return patched


def _looked_up(kind_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The numpy type of a type of numbers; a block has that of its numbers."""
    known: dict[str, Any] = {}

    def found(kind: Any) -> Any:
        number = kind.element_ty if isinstance(kind, tl.block_type) else kind
        name = "pointer" if isinstance(number, tl.pointer_type) else number.name
        if name not in known:
            known[name] = kind_of(number)
        return known[name]

    return found


def _signed(rewrite: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel has its signature with it, which every launch asks for twice."""

    def rewritten(self: Any) -> Any:
        function = rewrite(self)
        if not hasattr(function, "__signature__"):
            function.__signature__ = signature(function)
        return function

    return rewritten


def _called_at_once(patch: Callable[..., None]) -> Callable[..., None]:
    """A part of the language is called without what asks whether it is in a kernel."""
    asks = tl.core.builtin(lambda: None).__code__

    def patched(obj: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
        if getattr(member, "__code__", None) is not asks:
            return patch(obj, name, member, builder, scope)
        function, semantic = member.__wrapped__, interpreter.interpreter_semantic

        def called(*arguments: Any, **choices: Any) -> Any:
            choices["_semantic"] = semantic
            return function(*arguments, **choices)

        return scope.set_attr(obj, name, called)

    return patched


def _sides(kind: Any) -> tuple[int, ...]:
    """The sides of a block, () for a number."""
    if not kind.is_block():
        return ()
    if not hasattr(kind, "sides"):
        kind.sides = tuple(kind.shape)
    return kind.sides


def _remembered_block(make: Callable[..., None]) -> Callable[..., None]:
    """The sides of a block, and its name, are those of one before it with such numbers and sides."""
    known: dict[tuple[Any, ...], tuple[Any, int, str]] = {}

    def made(self: Any, element_ty: Any, shape: Any) -> None:
        sides = tuple([side.value if isinstance(side, tl.constexpr) else side for side in shape])
        key = (element_ty.name, sides)
        if key not in known or not {*map(type, sides)} <= {int}:
            make(self, element_ty, [*shape])
            known[key] = self.shape, self.numel, self.name
        self.element_ty, self.sides = element_ty, sides
        self.shape, self.numel, self.name = known[key]

    return made


def _remembered_tensor(make: Callable[..., None]) -> Callable[..., None]:
    """The sides of a tensor, which are constants to a kernel, are those of one before it with such sides."""
    known: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def made(self: Any, handle: Any, type: Any) -> None:  # noqa: A002  # as Triton calls it
        sides = _sides(type)
        if sides not in known:
            make(self, handle, type)
            known[sides] = self.shape, self.numel
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = known[sides]

    return made


def _unwrapped_by_kind(unwrap: Callable[..., Any]) -> Callable[..., Any]:
    """What is neither a constant nor holds any is given back without being asked for all that it might be."""
    plain = frozenset({tl.tensor, int, float, bool, str, type(None)})

    def unwrapped(o: Any) -> Any:
        kind = type(o)
        return o if kind in plain else o.value if kind is tl.constexpr else unwrap(o)

    return unwrapped


def _cast_from_another(cast: Callable[..., Any]) -> Callable[..., Any]:
    """Numbers that have the kind already are left as they are."""

    def found(input: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> Any:  # noqa: A002  # as Triton calls it
        name = input.dtype.name
        if name in _SAME and name == dst_ty.scalar.name:
            return input
        return cast(input, dst_ty, fp_downcast_rounding)

    return found


def _remembered_shapes(broadcast: Callable[..., Any]) -> Callable[..., Any]:
    """Which of two sides is stretched, and to what, is as for a pair before them with such sides."""
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], bool, bool]] = {}

    def stretched(tensor: Any, sides: tuple[int, ...]) -> Any:
        handle, data = tensor.handle, tensor.handle.data
        data = np.broadcast_to(data, sides) if tensor.type.is_block() else np.full(sides, data[0], data.dtype)
        return tl.tensor(interpreter.TensorHandle(data, handle.dtype.scalar), tl.block_type(tensor.dtype, sides))

    def found(lhs: Any, rhs: Any) -> Any:
        pair = _sides(lhs.type), _sides(rhs.type)
        if pair in known:
            sides, left, right = known[pair]
            return stretched(lhs, sides) if left else lhs, stretched(rhs, sides) if right else rhs
        ours, theirs = broadcast(lhs, rhs)
        if len(pair[0]) == len(pair[1]) or not all(pair):
            known[pair] = _sides(ours.type), ours is not lhs, theirs is not rhs
        return ours, theirs

    return found


def _checked_by_kind(check: Callable[..., Any]) -> Callable[..., Any]:
    """Two sides of one kind, or a pointer and whole numbers, are only stretched; constants are those of before."""
    known: dict[tuple[Any, ...], Any] = {}

    def checked(
        lhs: Any,
        rhs: Any,
        allow_lhs_ptr: bool = False,
        allow_rhs_ptr: bool = False,
        arithmetic_check: bool = True,
        div_or_mod: bool = False,
    ) -> Any:
        flags = allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod
        if type(lhs) is tl.tensor:
            kind = lhs.dtype.name
            if type(rhs) is tl.tensor:
                other = rhs.dtype.name
                if kind == other if kind in _SAME else allow_lhs_ptr and lhs.dtype.is_ptr() and other in _WHOLE:
                    return interpreter.interpreter_semantic.broadcast_impl_value(lhs, rhs)
            elif kind in _SAME and type(rhs) in (int, float, bool):
                key = kind, _sides(lhs.type), type(rhs), rhs, copysign(1, rhs), flags
                if key in known:
                    return lhs, known[key]
                ours, constant = check(lhs, rhs, *flags)
                if ours is lhs:
                    known[key] = constant
                return ours, constant
        return check(lhs, rhs, *flags)

    return checked
