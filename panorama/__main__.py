"""`python -m panorama`: the command line, where its script is not on the PATH."""

from panorama.cli import main

if __name__ == "__main__":
    main()
