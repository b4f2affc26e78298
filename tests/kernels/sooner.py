"""Triton's interpreter, sooner: without what it prepares or computes more than once, or for nobody.

What it gives is the same. It is for processes that interpret and do nothing else: its language is never given back.
Where its parts are called otherwise than here, they are left as they are.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
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
    block: Any = tl.block_type
    block.__init__ = _remembered_block(block.__init__)
    tensor: Any = tl.tensor
    tensor.__init__ = _remembered_tensor(tensor.__init__)


def _once(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A part of the language that a function of a kernel sees is the interpreter's from then on."""
    seen: set[int] = set()

    @cache
    def parts_of(function: Any) -> frozenset[int]:
        modules = {id(value) for value in function.__globals__.values() if isinstance(value, ModuleType)}
        return frozenset(modules & {id(tl), id(tl.core)})

    def patched(function: Any) -> Any:
        if not parts_of(function) <= seen:
            patch(function)
            seen.update(parts_of(function))
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
    """The type of a block is that of one before it with such numbers and sides."""
    known: dict[tuple[Any, ...], dict[str, Any]] = {}

    def made(block: Any, element_ty: Any, shape: Any) -> None:
        key = (element_ty.name, *(side.value if isinstance(side, tl.constexpr) else side for side in shape))
        if key not in known:
            make(block, element_ty, shape)
            known[key] = dict(vars(block))
        vars(block).update(known[key])

    return made


def _remembered_tensor(make: Callable[..., None]) -> Callable[..., None]:
    """What a tensor says of its type is what one before it of that type says."""
    known: dict[str, dict[str, Any]] = {}

    def made(tensor: Any, handle: Any, kind: Any) -> None:
        if kind.name not in known:
            make(tensor, handle, kind)
            known[kind.name] = dict(vars(tensor))
        vars(tensor).update(known[kind.name], handle=handle, type=kind)

    return made
