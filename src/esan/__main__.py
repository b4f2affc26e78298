"""`esan` and `python -m esan`: starts the command line; an interrupt prints one line."""

import sys

try:
    from esan.cli.import_interrupts import INTERRUPTED, interruptible
except KeyboardInterrupt:  # before the handler of `interruptible` is there
    sys.stderr.write("Interrupted.\n")
    sys.exit(130)


def main() -> None:
    """Run the command line of this process."""
    try:
        with interruptible():
            from esan.cli.main import app

            app(prog_name="esan")
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
