"""Triton's interpreter, sooner: without what it prepares or computes more than once, or for nobody.

What it gives is the same. Where its parts are called otherwise than here, they are left as they are.
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
        interpreter._patch_lang = _once_a_kernel(interpreter._patch_lang)
    if hasattr(interpreter, "_get_np_dtype"):
        interpreter._get_np_dtype = _looked_up(interpreter._get_np_dtype)
    builder: Any = getattr(interpreter, "interpreter_builder", None)
    options: Any = getattr(builder, "options", None)
    if getattr(options, "sanitize_overflow", False) and not options.debug:
        # Every sum of whole numbers is computed again in 64 bits, for an assertion that only debugging makes.
        builder.options = replace(options, sanitize_overflow=False)


def _once_a_kernel(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A part of the language that a function of a kernel sees is the interpreter's already if one before it saw it."""
    seen: set[frozenset[int]] = set()

    @cache
    def parts_of(function: Any) -> frozenset[int]:
        modules = {id(value) for value in function.__globals__.values() if isinstance(value, ModuleType)}
        return frozenset(modules & {id(tl), id(tl.core)})

    def patched(function: Any) -> Any:
        parts = parts_of(function)
        outermost = not seen
        if parts in seen:
            return interpreter._LangPatchScope()
        scope = patch(function)
        seen.add(parts)
        if outermost:
            restore = scope.restore

            def restored() -> None:
                seen.clear()
                restore()

            scope.restore = restored
        return scope

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
