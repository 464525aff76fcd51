"""Functions whose calls a recorder or a profiler can observe, at no cost while nobody does.

`observable` notes a function and nothing else: calling it takes as long as before. `observe` gives all of these
functions another code, which passes each call to an observer, and `stop` gives them their own code back. The function
objects stay the same, so it does not matter where a name of them is kept, as after `from numbacc.gated import forward`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
#: (the function as it was, its label) -> what is called instead of it, with the same arguments.
Observers = Mapping[str, Callable[[Callable[..., Any], str], Callable[..., Any]]]


def _passing_on(*args: Any, **kwargs: Any) -> Any:
    """Pass a call on to an observer, which replaces the only number in this function's code."""
    observer: Any = 1234567
    return observer(*args, **kwargs)


class _Observable:
    """A function that can be observed.

    Attributes:
        function: the function.
        kind: the name of its observer; "call" if users call it.
        label: its name in reports; of methods, the attribute of the object that holds the name, after a dot.
    """

    __slots__ = ("_codes", "function", "kind", "label")

    def __init__(self, function: FunctionType, kind: str, label: str):
        self.function, self.kind, self.label = function, kind, label
        #: Its own code, and the code that passes calls on; the latter is made when it is first needed.
        self._codes: tuple[CodeType, CodeType] | None = None

    def observe(self, observers: Observers) -> None:
        """Pass calls on from now on."""
        if self._codes is None:
            function = self.function
            own = function.__code__
            # The code that runs uses the function's globals and defaults.
            before = FunctionType(own, function.__globals__, function.__name__, function.__defaults__)
            before.__kwdefaults__, before.__qualname__ = function.__kwdefaults__, function.__qualname__
            observer = observers[self.kind](before, self.label)
            template = _passing_on.__code__
            constants = tuple(observer if type(each) is int else each for each in template.co_consts)
            self._codes = own, template.replace(co_name=own.co_name, co_consts=constants)
        self.function.__code__ = self._codes[1]

    def stop(self) -> None:
        """Give the function its own code back."""
        if self._codes is not None:
            self.function.__code__ = self._codes[0]


_observables: list[_Observable] = []
#: The observers, while somebody observes.
_observers: Observers | None = None
#: Functions that are called with True when somebody starts to observe, and with False afterwards.
watchers: list[Callable[[bool], None]] = []
#: Modules may be imported, and register functions, while another thread starts or stops to observe.
_lock = threading.RLock()


def observable(kind: str, label: str = "") -> Callable[[F], F]:
    """Return a decorator of functions and methods that can be observed.

    Args:
        kind, label: the same as in `_Observable`. Without a label it is the function's name.
    """

    def note(function: F) -> F:
        assert isinstance(function, FunctionType) and not function.__closure__
        made = _Observable(function, kind, label or function.__name__)
        with _lock:
            _observables.append(made)
            if _observers is not None:
                made.observe(_observers)
        return function

    return note


def observe(observers: Observers) -> None:
    """Pass the calls of all observable functions on to observers. Modules that are imported later are included.

    All callers must pass the same observers.
    """
    global _observers
    with _lock:
        _observers = observers
        for each in _observables:
            each.observe(observers)
        for watcher in watchers:
            watcher(True)


def stop() -> None:
    """Observe no longer."""
    global _observers
    with _lock:
        _observers = None
        for each in _observables:
            each.stop()
        for watcher in watchers:
            watcher(False)
