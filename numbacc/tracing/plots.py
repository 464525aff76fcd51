"""A trace as a picture: threads against addresses, or a warp's elements in an array of two dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import OptionError
from .counting import SECTOR, WARP
from .recording import ACCESSES, ATOMIC, GLOBAL, READ, WRITE, Named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Integers = np.ndarray[Any, np.dtype[Any]]

#: A marker and colour of each kind of access; colours that the colour-blind can tell apart.
_STYLES = {READ: ("o", "tab:blue"), WRITE: ("s", "tab:orange"), ATOMIC: ("^", "black")}
#: With more sectors than this, they are not drawn one by one.
_MOST_LINES = 64
#: An axis of at most this many elements is drawn as a whole; of a longer one, only the part near the warp's elements.
_WHOLE_AXIS = 40
#: In a larger picture, elements of other threads are left out.
_MOST_PIXELS = 2**22
#: Colours of rows and columns: threads of the warp, sectors that they request, elements of other threads.
_LANES, _SECTOR, _SECTOR_EDGE, _OTHERS = "viridis", "#ffd9a0", "#c55a00", "#e4e4e4"


def draw(trace: Any, names: tuple[str, ...], launch: int, threads: int | None) -> Figure:
    """Draw threads against addresses, as `Trace.plot` describes."""
    try:
        from matplotlib import pyplot
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "numbacc[notebooks]"') from error
    if not -len(trace.launches) <= launch < len(trace.launches):
        raise OptionError(f"launch={launch}: the trace has {len(trace.launches)} launches")
    number = launch % len(trace.launches)
    records = trace.records
    block = int(np.prod(trace.launches[number].block))
    chosen = records["launch"] == number
    if threads is not None:
        chosen &= records["block"] * block + records["thread"] < threads
    chosen = np.flatnonzero(chosen)
    touched = [*dict.fromkeys(records["array"][chosen].tolist())]
    _check_names(trace, names, number, [trace.arrays[k].name for k in touched])
    panels = [
        (trace.arrays[k], part, kind)
        for k in touched
        if not names or trace.arrays[k].name in names
        for kind, part in _parts(trace.arrays[k], chosen[records["array"][chosen] == k], records)
    ]
    ran, count = trace.launches[number], max(len(panels), 1)
    columns = 2 if count == 4 else min(count, 3)
    size = 1.5 + 4.5 * columns, 0.4 + (3.6 if all(kind is None for *_, kind in panels) else 4.4) * -(-count // columns)
    figure = pyplot.figure(figsize=size, layout="constrained")
    figure.suptitle(f"{ran.kernel}[{_dimensions(ran.grid)}, {_dimensions(ran.block)}]")
    legend: dict[str, Any] = {}
    pictures = []
    for k, (named, part, kind) in enumerate(panels, 1):
        panel = figure.add_subplot(-(-count // columns), columns, k)
        if kind is None:
            legend |= _threads_panel(panel, named, records[part], block)
        else:
            legend |= _rows_panel(panel, named, records[part], ACCESSES[kind], _conflicts(trace, part))
            pictures.append(panel)
    if pictures:
        lanes = ScalarMappable(Normalize(0, WARP - 1), _LANES)
        ticks = [*range(0, WARP, 8), WARP - 1]
        figure.colorbar(lanes, ax=pictures, label="thread of the warp", ticks=ticks, shrink=0.8)
    if legend:
        figure.legend([*legend.values()], [*legend], loc="outside lower center", ncols=4, fontsize="small")
    return figure


def _check_names(trace: Any, names: tuple[str, ...], launch: int, known: list[str]) -> None:
    """Raise an error unless the launch accessed all of these arrays."""
    for name in names:
        of_launch = {each.name for each in trace.arrays if each.launch == launch}
        if name in of_launch - {*known} and trace.counts().accesses > len(trace.records):
            raise OptionError(
                f"array={name!r}: the trace kept the first {len(trace.records):,} accesses, and none of this launch "
                f"was to {name}. Launch the kernel on a smaller array, or give numbacc.trace a larger max_accesses"
            )
        if name not in known:
            raise OptionError(f"array={name!r} is unknown to this launch, which has {', '.join(known)}")


def _parts(named: Named, part: Integers, records: Integers) -> list[tuple[int | None, Integers]]:
    """Return (kind of access, records) of each panel of an array; the kind is None for threads against addresses."""
    if not _has_rows(named):
        return [(None, part)]
    by_kind = {kind: part[records["access"][part] == kind] for kind in dict.fromkeys(records["access"][part].tolist())}
    # A tile is written before it is read.
    return sorted(by_kind.items(), key=lambda each: records["phase"][each[1]].min())


def _has_rows(named: Named) -> bool:
    """Return whether an array has two dimensions and no two elements share an address."""
    if len(named.shape) != 2 or min(named.shape) < 2:
        return False
    (short, length), (long, _) = sorted(zip(map(abs, named.strides), named.shape, strict=True))
    return short > 0 and long >= short * length


def _threads_panel(panel: Any, named: Named, records: Integers, threads: int) -> dict[str, Any]:
    """Draw threads against addresses, and return the legend's entries."""
    legend: dict[str, Any] = {}
    unit = named.itemsize
    for access, (marker, colour) in _STYLES.items():
        own = records[records["access"] == access]
        places = (own["address"] - named.address) / unit
        rows = own["block"] * threads + own["thread"]
        # The first access of each thread at an instruction has a filled marker: in a loop, the warp's first request.
        first = own["step"] == 0
        for chosen, fill, label in (
            (first, colour, ACCESSES[access]),
            (~first, "none", f"{ACCESSES[access]}, later rounds"),
        ):
            if chosen.any():
                (legend[label],) = panel.plot(places[chosen], rows[chosen], marker, color=colour, ms=3, mfc=fill)
    low, high = (f(records["address"]) for f in (np.min, np.max))
    if named.space == GLOBAL:
        edges = np.arange(low // SECTOR, high // SECTOR + 2) * SECTOR
        if edges.size <= _MOST_LINES:
            for edge in edges:
                at = (edge - named.address) / unit - 0.5
                legend["border of a sector"] = panel.axvline(at, color="lightgrey", linewidth=0.6, zorder=0)
    panel.set(title=f"{named.name} ({named.space})", xlabel=f"element of {unit} bytes", ylabel="thread")
    panel.invert_yaxis()
    return legend


# ---------------------------------------------------------------- rows and columns


def _rows_panel(panel: Any, named: Named, records: Integers, access: str, conflicts: Integers) -> dict[str, Any]:
    """Draw the elements that a launch's first warp accesses, and return the legend's entries.

    Args:
        records: of the array and one kind of access.
        access: its name.
        conflicts: of the requests that the records belong to.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    warp = records["block"] * WARP + records["thread"] // WARP  # a block has at most 32 warps
    mine = np.flatnonzero(warp == warp.min())
    own = records[mine]
    once = np.flatnonzero((own["step"] == 0) & (own["phase"] == own["phase"].min()))  # a loop's first round
    request = once[own["instruction"][once] == own["instruction"][once[0]]]

    legend: dict[str, Any] = {"elements of other threads": Patch(color=_OTHERS)} if mine.size < records.size else {}
    cells, lanes = _elements(named, own)
    early, early_lanes = _elements(named, own[once])
    around = [cells]
    said = f"first request: {request.size} elements, {conflicts[mine[request[0]]]} conflicts"
    if named.space == GLOBAL:
        sectors = _sectors(own[once])
        inside, outlines = _sector_cells(named, sectors)
        around += [inside]
        _rectangles(panel, inside, facecolors=_SECTOR, zorder=1)
        _outlines(panel, outlines)
        legend = {"sectors that the warp requests": Patch(facecolor=_SECTOR, edgecolor=_SECTOR_EDGE), **legend}
        moved = _sectors(own[request]).size
        used = _bytes(own[request]) / (SECTOR * moved)
        said = f"first request: {request.size} elements in {moved} sector{'s' * (moved > 1)}, {used:.0%} used"
    if own.size > once.size:
        for label, size in (("first round of a loop", 7), ("later rounds", 3)):
            legend[label] = Line2D([], [], marker="s", markersize=size, color="tab:green", linestyle="")
        _rectangles(panel, cells, lanes, scale=0.4, zorder=2)
    _rectangles(panel, early, early_lanes, zorder=3)

    (top, bottom), (left, right) = _window(named.shape, np.concatenate(around, axis=1))
    extent = (left - 0.5, right - 0.5, bottom - 0.5, top - 0.5)
    if (bottom - top) * (right - left) <= _MOST_PIXELS:
        others = _elements(named, records)[0] - [[top], [left]]
        shown = ((others >= 0) & (others < [[bottom - top], [right - left]])).all(axis=0)
        seen = np.ma.masked_all((bottom - top, right - left))
        seen[tuple(others[:, shown])] = 1
        panel.imshow(seen, cmap=ListedColormap([_OTHERS]), extent=extent, interpolation="nearest", zorder=0)
    panel.set_title(f"{named.name} ({named.space}), {access}\n{said}", fontsize="medium")
    panel.set(xlim=extent[:2], ylim=extent[2:], xlabel="column", ylabel="row")
    panel.set_aspect("equal" if 1 / 3 <= (bottom - top) / (right - left) <= 3 else "auto")
    return legend


def _conflicts(trace: Any, part: Integers) -> Integers:
    """Return the bank conflicts of the request that each record belongs to."""
    grouped = trace._requests
    return grouped.conflicts[grouped.of[part]]  # type: ignore[no-any-return]


def _elements(named: Named, records: Integers) -> tuple[Integers, Integers]:
    """Return ((rows, columns), threads of the warp) of the elements that records touch."""
    count = np.maximum(records["nbytes"] // named.itemsize, 1)
    record = np.repeat(np.arange(records.size), count)
    within = np.arange(record.size) - np.repeat(np.cumsum(count) - count, count)
    addresses = records["address"][record] + within * named.itemsize
    (rows, columns), _ = named.indices_of(addresses)
    return np.stack([rows, columns]), records["thread"][record] % WARP


def _sectors(records: Integers) -> Integers:
    """Return the numbers of the sectors that records touch."""
    first, last = records["address"] // SECTOR, (records["address"] + records["nbytes"] - 1) // SECTOR
    return np.unique(np.concatenate([np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]))


def _bytes(records: Integers) -> int:
    """Return how many different bytes records touch."""
    return int(np.unique(records["address"]).size * records["nbytes"][0])


def _sector_cells(named: Named, sectors: Integers) -> tuple[Integers, Integers]:
    """Return ((rows, columns) of the elements in sectors, (top, bottom, left, right) of each part of a row)."""
    addresses = (sectors[:, None] * SECTOR + np.arange(SECTOR)).ravel()
    (rows, columns), rest = named.indices_of(addresses)
    height, width = named.shape
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width) & (rest < named.itemsize)
    found = np.unique(np.stack([np.repeat(sectors, SECTOR), rows, columns])[:, inside], axis=1)
    line = 1 if abs(named.strides[0]) > abs(named.strides[1]) else 2  # neighbours in memory lie in a row or a column
    _, part = np.unique(found[[0, line]], axis=1, return_inverse=True)
    part = part.ravel()
    count = int(part.max()) + 1
    edges = np.empty((4, count), np.int64)
    for k, (values, smallest) in enumerate(((found[1], True), (found[1], False), (found[2], True), (found[2], False))):
        edges[k] = np.iinfo(np.int64).max if smallest else -1
        (np.minimum if smallest else np.maximum).at(edges[k], part, values)
    return found[1:], edges


def _window(shape: tuple[int, ...], cells: Integers) -> list[tuple[int, int]]:
    """Return the (first, last + 1) of rows and of columns to draw: whole short axes, and the part of long ones."""
    found = []
    for length, places in zip(shape, cells, strict=True):
        first, last = int(places.min()), int(places.max()) + 1
        if length > _WHOLE_AXIS:
            first = max(0, min(first - 2, length - _WHOLE_AXIS))
            found.append((first, min(length, max(last + 2, first + _WHOLE_AXIS))))
        else:
            found.append((0, length))
    return found


def _rectangles(
    panel: Any, cells: Integers, lanes: Integers | None = None, *, scale: float = 1.0, **style: Any
) -> None:
    """Draw elements, coloured by thread if there are `lanes`."""
    from matplotlib.collections import PolyCollection

    corners = 0.5 * scale * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    drawn = PolyCollection([*(cells[::-1].T[:, None] + corners)], linewidths=0.3, **style)
    if lanes is None:
        drawn.set_edgecolor("none")
    else:
        drawn.set(array=lanes, cmap=_LANES, clim=(0, WARP - 1), edgecolor="face")
    panel.add_collection(drawn, autolim=False)


def _outlines(panel: Any, edges: Integers) -> None:
    """Draw the borders of sectors."""
    from matplotlib.collections import PolyCollection

    top, bottom, left, right = edges + 0.5 * np.array([[-1], [1], [-1], [1]])
    corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)]).transpose(2, 0, 1)
    drawn = PolyCollection([*corners], facecolors="none", edgecolors=_SECTOR_EDGE, linewidths=0.6)
    drawn.set(zorder=4, label="sectors")
    panel.add_collection(drawn, autolim=False)


def _dimensions(lengths: tuple[int, ...]) -> str:
    """Return the lengths as text, without trailing ones."""
    shown = [*lengths]
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return str(shown[0]) if len(shown) == 1 else str(tuple(shown))
