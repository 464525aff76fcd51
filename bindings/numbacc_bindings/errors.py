"""The two roots of every exception that numbacc raises."""


class Error(Exception):
    """The root of all errors raised by numbacc and its bindings.

    Example:
        >>> issubclass(numbacc.ShapeError, numbacc.Error)
        True
    """


class LibraryError(Error, RuntimeError):
    """A vendor library is missing, or one of its functions failed.

    Attributes:
        function: the C function that failed, or None where no call was made.
        status: its status number, or None.
        status_name: the name the library gives that number, or ``"unknown status"``.
        out_of_memory: whether the status says, or in this library may mean, that memory is short.

    Example:
        >>> numbacc.LibraryError("the library failed", status=7).status
        7
    """

    def __init__(
        self,
        message: str,
        *,
        function: str | None = None,
        status: int | None = None,
        status_name: str | None = None,
        out_of_memory: bool = False,
    ):
        super().__init__(message)
        self.function = function
        self.status = status
        self.status_name = status_name
        self.out_of_memory = out_of_memory
