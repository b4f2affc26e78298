"""Checks of the path that a picture is saved to."""

from pathlib import Path

#: The kinds of files that matplotlib writes everywhere.
ENDINGS = ("png", "svg", "pdf", "jpg", "jpeg", "webp", "tif", "tiff", "gif", "eps", "ps")


def picture_file(path: str | Path) -> Path:
    """The path, if it names a file with an ending.

    Args:
        path: where a picture is to be saved.
    """
    path = Path(path)
    # matplotlib adds .png to a name without an ending, so that the picture lies elsewhere than was said.
    if path.is_dir() or not path.suffix:
        kind = "a folder" if path.is_dir() else "no ending"
        raise ValueError(
            f"Expected the file of a picture, such as {path / 'refinement.png' if path.is_dir() else f'{path}.png'} "
            f"(got {str(path)!r}, {kind}). Name the file with its ending."
        )
    if path.suffix.lower().removeprefix(".") not in ENDINGS:
        raise ValueError(
            f"Expected a picture that ends in one of {', '.join(ENDINGS)} (got {path.suffix!r}). Name it e.g. "
            f"{path.with_suffix('.png')}."
        )
    return path
