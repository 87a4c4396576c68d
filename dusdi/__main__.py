"""`python -m dusdi`, the same as the `dusdi` command."""

from dusdi_command import main

if __name__ == "__main__":
    main()
