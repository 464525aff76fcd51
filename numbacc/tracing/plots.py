"""A trace as a picture: threads against addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import OptionError
from .counting import SECTOR
from .recording import ACCESSES, ATOMIC, READ, WRITE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A marker and colour of each kind of access; colours that the colour-blind can tell apart.
_STYLES = {READ: ("o", "tab:blue"), WRITE: ("s", "tab:orange"), ATOMIC: ("^", "black")}
#: With more sectors than this, they are not drawn one by one.
_MOST_LINES = 64


def draw(trace: Any, names: tuple[str, ...], launch: int, threads: int | None) -> Figure:
    """Draw threads against addresses, as `Trace.plot` describes."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "numbacc[notebooks]"') from error
    if not -len(trace.launches) <= launch < len(trace.launches):
        raise OptionError(f"launch={launch}: the trace has {len(trace.launches)} launches")
    number = launch % len(trace.launches)
    records = trace.records[trace.records["launch"] == number]
    block = int(np.prod(trace.launches[number].block))
    if threads is not None:
        records = records[records["block"] * block + records["thread"] < threads]
    touched = [k for k in dict.fromkeys(records["array"].tolist()) if not names or trace.arrays[k].name in names]
    known = [trace.arrays[k].name for k in dict.fromkeys(records["array"].tolist())]
    for name in names:
        of_launch = {each.name for each in trace.arrays if each.launch == number}
        if name in of_launch - {*known} and trace.counts().accesses > len(trace.records):
            raise OptionError(
                f"array={name!r}: the trace kept the first {len(trace.records):,} accesses, and none of this launch "
                f"was to {name}. Launch the kernel on a smaller array, or give numbacc.trace a larger max_accesses"
            )
        if name not in known:
            raise OptionError(f"array={name!r} is unknown to this launch, which has {', '.join(known)}")
    ran = trace.launches[number]
    figure = pyplot.figure(figsize=(1.5 + 4.5 * max(len(touched), 1), 3.6), layout="constrained")
    figure.suptitle(f"{ran.kernel}[{_dimensions(ran.grid)}, {_dimensions(ran.block)}]")
    if touched:
        panels = figure.subplots(1, len(touched), squeeze=False)[0]
        for panel, k in zip(panels, touched, strict=True):
            _panel(panel, trace.arrays[k], records[records["array"] == k], block)
        panels[0].set_ylabel("thread")
    return figure


def _panel(panel: Any, named: Any, records: np.ndarray[Any, Any], threads: int) -> None:
    unit = named.itemsize
    for access, (marker, colour) in _STYLES.items():
        own = records[records["access"] == access]
        places = (own["address"] - named.address) / unit
        rows = own["block"] * threads + own["thread"]
        # The first access of each thread at an instruction has a filled marker: in a loop, the warp's first request.
        first = own["step"] == 0
        for chosen, fill, label in ((first, colour, ACCESSES[access]), (~first, "none", None)):
            if chosen.any():
                panel.plot(places[chosen], rows[chosen], marker, color=colour, ms=3, mfc=fill, label=label)
    low, high = (f(records["address"]) for f in (np.min, np.max))
    if named.space == "global":
        edges = np.arange(low // SECTOR, high // SECTOR + 2) * SECTOR
        if edges.size <= _MOST_LINES:
            for edge in edges:
                panel.axvline((edge - named.address) / unit - 0.5, color="lightgrey", linewidth=0.6, zorder=0)
    panel.set(title=f"{named.name} ({named.space})", xlabel=f"element of {unit} bytes")
    panel.invert_yaxis()
    panel.legend(fontsize="small")


def _dimensions(lengths: tuple[int, ...]) -> str:
    """Return the lengths as text, without trailing ones."""
    shown = [*lengths]
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return str(shown[0]) if len(shown) == 1 else str(tuple(shown))
