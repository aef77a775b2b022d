"""``python -m zenith``: the command line."""

from zenith.cli import app

if __name__ == "__main__":
    app(prog_name="python -m zenith")
