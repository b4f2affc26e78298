"""Triton's interpreter, sooner: without what it prepares or computes more than once, or for nobody.

What it gives is the same. It is for processes that interpret and do nothing else: its language is never given back.
Where its parts are called otherwise than here, they are left as they are.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from inspect import signature
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.runtime import interpreter


def interpret_sooner() -> None:
    if hasattr(interpreter, "_patch_lang") and hasattr(interpreter, "_LangPatchScope"):
        interpreter._patch_lang = _once(interpreter._patch_lang)
    if hasattr(interpreter, "_get_np_dtype"):
        interpreter._get_np_dtype = _looked_up(interpreter._get_np_dtype)
    builder: Any = getattr(interpreter, "interpreter_builder", None)
    options: Any = getattr(builder, "options", None)
    if getattr(options, "sanitize_overflow", False) and not options.debug:
        # Every sum of whole numbers is computed again in 64 bits, for an assertion that only debugging makes.
        builder.options = replace(options, sanitize_overflow=False)
    for kind, names, remembered in (
        (tl.block_type, ["self", "element_ty", "shape"], _remembered_block),
        (tl.tensor, ["self", "handle", "type"], _remembered_tensor),
    ):
        made: Any = kind
        if [*signature(made.__init__).parameters] == names:
            made.__init__ = remembered(made.__init__)


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


def _remembered_block(make: Callable[..., None]) -> Callable[..., None]:
    """The sides of a block, and its name, are those of one before it with such numbers and sides."""
    known: dict[tuple[Any, ...], tuple[Any, int, str]] = {}

    def made(self: Any, element_ty: Any, shape: Any) -> None:
        sides = [side.value if isinstance(side, tl.constexpr) else side for side in shape]
        key = (element_ty.name, *sides)
        if key not in known or not all(type(side) is int for side in sides):
            make(self, element_ty, shape)
            known[key] = self.shape, self.numel, self.name
        self.element_ty = element_ty
        self.shape, self.numel, self.name = known[key]

    return made


def _remembered_tensor(make: Callable[..., None]) -> Callable[..., None]:
    """The sides of a tensor, which are constants to a kernel, are those of one before it with such sides."""
    known: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def made(self: Any, handle: Any, type: Any) -> None:  # noqa: A002  # as Triton calls it
        sides = tuple(type.shape) if type.is_block() else ()
        if sides not in known:
            make(self, handle, type)
            known[sides] = self.shape, self.numel
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = known[sides]

    return made
