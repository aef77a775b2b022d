"""Programs for type checkers are read here, and not run."""

collect_ignore = ["user_code.py", "user_mistakes.py"]
