"""The package's own exceptions."""


class ReadError(ValueError):
    """A file that cannot be read as what it should be.

    ``path`` is the file and ``line`` the line, counted from 1; 0 where no line is meant.
    """

    def __init__(self, message: str, path: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.line = line

    def __reduce__(self) -> tuple[type, tuple[str, str, int]]:
        return ReadError, (self.args[0], self.path, self.line)


class CapacityError(MemoryError):
    """A graph or a table that does not fit into memory or into 32-bit node ids."""
