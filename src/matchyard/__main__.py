"""`python -m matchyard` is the command `matchyard`."""

from matchyard.cli import main

if __name__ == "__main__":
    main()
