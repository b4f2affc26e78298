"""Ways to damage files: bytes, texts, arrays, and headers that lie. A seed chooses each."""

import io
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

#: Numbers that nobody checks by chance.
NUMBERS = (-1, 0, 1, 2, 7, 127, 255, 2**31 - 1, 2**31, 2**32 + 1, 2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), -7)
WORDS = (
    "-1", "0", "1", "2", "99", "4294967297", "9" * 15, "9" * 19, "9" * 30, "9" * 5000, "1e3", "1e400", "nan", "inf",
    "-inf", "0.5", "1.0", "1_0", "x", "", "0x10", "٣", "\x00", "\ufeff", "\x85", "\x1c", "2\r3", "#", ",", "1 1",
    "[" * 3000,
)  # fmt: skip


def bytes_of(content: bytes, seed: int) -> bytes:
    """Flip, cut, double, blank, swap or add some bytes."""
    dice = random.Random(seed)
    changed = bytearray(content)
    size = max(len(changed), 1)
    a, b = sorted(dice.randrange(size) for _ in range(2))
    kind = seed % 8
    if kind in (0, 1):
        for _ in range(1 if kind == 0 else dice.randrange(2, 30)):
            changed[dice.randrange(size)] ^= 1 << dice.randrange(8)
    elif kind == 2:
        del changed[a:]
    elif kind == 3:
        del changed[a : min(b, a + 200)]
    elif kind == 4:
        changed[a:a] = changed[a : min(b, a + 200)] or b"\0"
    elif kind == 5:
        changed[a : min(b, a + 64)] = bytes(min(b, a + 64) - a)
    elif kind == 6:
        step = min(32, size // 4)
        c = dice.randrange(max(size - 2 * step, 1))
        d = dice.randrange(c + step, max(size - step, c + step + 1))
        changed[c : c + step], changed[d : d + step] = changed[d : d + step], changed[c : c + step]
    else:
        changed += dice.randbytes(dice.randrange(1, 60))
    return bytes(changed)


def text_of(content: str, seed: int) -> str:
    """Change a word, or drop, double, move or add lines."""
    dice = random.Random(seed)
    lines = content.split("\n")
    at = dice.randrange(len(lines))
    kind = seed % 6
    if kind in (0, 1, 2):
        separator = "," if "," in lines[at] else " "
        words = lines[at].split(separator)
        words[dice.randrange(len(words))] = dice.choice(WORDS)
        lines[at] = separator.join(words)
    elif kind == 3:
        del lines[at : at + dice.randrange(1, 4)]
    elif kind == 4:
        lines[at:at] = [lines[at]] * dice.randrange(1, 4)
    else:
        other = dice.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def plain_of(value: Any, seed: int) -> Any:
    """One value somewhere in what JSON holds, changed or dropped; the rest as it was."""
    dice = random.Random(seed)
    strange: tuple[Any, ...] = (
        None,
        True,
        -1,
        0,
        2**70,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "x" * 50,
        "<b>|`*_",
        [],
        {},
        [[]],
        [1],
        {"a": 1},
    )

    def changed(inside: Any, depth: int) -> Any:
        if isinstance(inside, dict) and inside and (depth == 0 or dice.random() < 0.8):
            key = dice.choice(sorted(inside))
            if dice.random() < 0.15:
                return {name: v for name, v in inside.items() if name != key}
            if dice.random() < 0.1:
                return inside | {"another": dice.choice(strange)}
            return inside | {key: changed(inside[key], depth + 1)}
        if isinstance(inside, list) and inside and dice.random() < 0.8:
            place = dice.randrange(len(inside))
            if dice.random() < 0.15:
                return inside[:place] + inside[place + 1 :]
            return [*inside[:place], changed(inside[place], depth + 1), *inside[place + 1 :]]
        return dice.choice(strange)

    return changed(value, 0)


def array_of(array: np.ndarray, seed: int) -> np.ndarray:
    """One array, edited: a number, its kind, its shape, its length or its order."""
    dice = random.Random(seed)
    kind = seed % 12
    if array.size == 0 and kind < 6:
        kind = 8
    if kind < 5:
        changed = array.copy()
        flat = changed.reshape(-1)
        value = dice.choice(NUMBERS)
        if changed.dtype.kind in "iu":
            limits = np.iinfo(changed.dtype)
            value = min(max(value, limits.min), limits.max)
        elif changed.dtype.kind == "b":
            value = not flat[0]
        elif dice.random() < 0.4:
            value = dice.choice([np.nan, np.inf, 0.5, 1e300])  # type: ignore[assignment]
        with np.errstate(over="ignore"):
            flat[dice.randrange(flat.size)] = value
        return changed
    if kind == 5:
        return array * dice.choice([2, 100, -1]) if array.dtype.kind != "b" else ~array
    if kind == 6:
        kinds: tuple[str, ...] = ("<f8", "<f4", "|i1", "<u8", "<f2", "<c8", "<U8", "?")
        return array.astype(dice.choice(kinds))
    if kind == 7:
        return array.astype(array.dtype.newbyteorder(">"))
    if kind == 8:
        return (
            np.concatenate([array, array[-2:] if array.ndim else array.reshape(1)]) if array.ndim else array.reshape(1)
        )
    if kind == 9:
        return array[: dice.randrange(max(len(array), 1))] if array.ndim else array
    if kind == 10:
        return array.reshape(dice.choice([(-1,), (1, -1), (-1, 1)]))
    return array[::-1].copy() if array.ndim else array


def arrays_of(arrays: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Arrays with one edited, dropped, doubled under another name, or two swapped."""
    dice = random.Random(seed)
    names = sorted(arrays)
    name, other = dice.choice(names), dice.choice(names)
    kind = seed % 10
    if kind < 7:
        return arrays | {name: array_of(arrays[name], dice.randrange(10**6))}
    if kind == 7:
        return {key: value for key, value in arrays.items() if key != name}
    if kind == 8:
        return arrays | {name: arrays[other], other: arrays[name]}
    return arrays | {f"{name}2": arrays[name]}


def lying_npz(arrays: dict[str, np.ndarray], seed: int) -> bytes:
    """An .npz whose headers promise what is not there: sizes of arrays, of members, and bombs."""
    dice = random.Random(seed)
    file = io.BytesIO()
    liar, kind = dice.choice(sorted(arrays)), seed % 6
    with zipfile.ZipFile(
        file, "w", zipfile.ZIP_DEFLATED if kind in (2, 3) else zipfile.ZIP_STORED, compresslevel=1
    ) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            result = content.getvalue()
            if name == liar and kind in (0, 1):
                shape = ((2**41,), (2**20, 2**21), (2**62,), (-1,), (0, 2**61), (3,) * 33)[dice.randrange(6)]
                result = _header(array.dtype.str if kind else "|O", shape) + result[128:]
            elif name == liar and kind == 2:
                result = _header("|u1", (2**33,)) + bytes(2**20)
            elif name == liar and kind == 3:
                # 272 MiB of zeros in a quarter of a MiB: more than a file of that size may unpack to.
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    member.write(_header("<i8", (34 * 2**20,)))
                    for _ in range(272):
                        member.write(bytes(2**20))
                continue
            elif name == liar and kind == 4:
                result = b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000 + result[128:]
            archive.writestr(f"{name}.npy", result)
    content_of = bytearray(file.getvalue())
    if kind == 5:
        # The size that the directory names for one member, raised to 3 GiB.
        at = content_of.rfind(b"PK\x01\x02")
        content_of[at + 24 : at + 28] = struct.pack("<I", 3 * 2**30)
        if dice.random() < 0.5:
            content_of[at + 20 : at + 24] = struct.pack("<I", 3 * 2**30)
    return bytes(content_of)


def _header(descr: str, shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (117 - len(text) % 64 if len(text) > 117 else 117 - len(text)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def in_one_file(folder: Path, seed: int, damage: Callable[[Path, int], None]) -> None:
    """Damage one of the files of a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    damage(paths[random.Random(seed).randrange(len(paths))], seed)
