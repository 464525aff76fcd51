"""Small blocks that were freed on the default stream, kept for the next allocation of their size there.

The driver's pool does that, too, at two calls of a microsecond or more each, which is much of a small operation's host
time. The default stream alone has blocks here: it never ends, and what was queued on it before a block was freed comes
before whatever uses the block next, whichever thread that is.
"""

from __future__ import annotations

from collections.abc import Iterator

#: Bytes of the largest block that is kept; how many of one size; of how many sizes on one GPU, at most.
LARGEST, MOST, SIZES = 1 << 18, 4, 64
FULL = -1

#: Device -> bytes of a block -> addresses. Lists are changed by one call each, as several threads may.
_kept: dict[int, dict[int, list[int]]] = {}


def keep(device: int, nbytes: int, address: int) -> bool:
    """Keep a block whose work is all queued on the default stream; False where it is to be freed instead."""
    blocks = _kept.get(device, _NONE).get(nbytes)
    if blocks is None or len(blocks) >= MOST:
        return False
    blocks.append(address)
    if _kept.get(device, _NONE).get(nbytes) is not blocks:
        # Sizes have been given up by another thread meanwhile: nobody looks into this list again.
        try:
            blocks.remove(address)
        except ValueError:
            return True  # it was given up with the others
        return False
    return True


_NONE: dict[int, list[int]] = {}


def take(device: int, nbytes: int) -> int:
    """The address of a block that was kept; 0 where there is none, FULL where sizes are to be given up first.

    From now on blocks of this size are kept.
    """
    sizes = _kept.get(device)
    if sizes is None:
        sizes = _kept.setdefault(device, {})
    blocks = sizes.get(nbytes)
    if blocks:
        try:
            return blocks.pop()
        except IndexError:
            return 0  # another thread was faster
    if blocks is None:
        if len(sizes) >= SIZES:
            return FULL
        sizes.setdefault(nbytes, [])
    return 0


def given_up(device: int) -> Iterator[tuple[int, int]]:
    """(bytes, address) of each block, which whoever asks is to free; sizes begin anew."""
    for nbytes, blocks in list(_kept.pop(device, {}).items()):
        while blocks:
            try:
                yield nbytes, blocks.pop()
            except IndexError:
                break


def bytes_of(device: int) -> int:
    """How many bytes are kept."""
    return sum(nbytes * len(blocks) for nbytes, blocks in list(_kept.get(device, _NONE).items()))
