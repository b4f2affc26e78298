"""`python -m esan`: the command line, where its script is not on the path."""

from esan.cli.main import app

if __name__ == "__main__":
    app(prog_name="esan")
