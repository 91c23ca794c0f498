"""Modes of the files and folders that this package makes on local disks.

1. `private`: files 0600, folders 0700. The default.
2. `group`: files 0640, folders 2750, of one named group, so that its members can read.
3. `inherit`: by the process's umask and the parent folder. Object stores have no modes, so there it
   is always `inherit`.
4. The mode is set exactly, whatever the umask. An existing folder keeps a wider mode. A narrower
   one, left by an earlier run with another setting, is opened by `open_up`.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPTION = "[sfevents] staging_mode"
NAMES = ("private", "group", "inherit")

_BITS = 0o7777
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Modes to set.

    :param name: as in the setting.
    :param file: mode of files.
    :param folder: mode of folders.
    :param exact: set the modes exactly; otherwise the umask and the parent folder decide.
    :param gid: group that owns new files and folders; None for the process's own.
    """

    name: str
    file: int
    folder: int
    exact: bool = True
    gid: int | None = None


PRIVATE = Modes(name="private", file=0o600, folder=0o700)
INHERIT = Modes(name="inherit", file=0o666, folder=0o777, exact=False)

_in_use = PRIVATE


def group(gid: int) -> Modes:
    """Modes for one group of readers."""
    return Modes(name="group", file=0o640, folder=0o2750, gid=gid)


def use(modes: Modes) -> None:
    """Set the modes for this process, as a umask does."""
    global _in_use  # noqa: PLW0603 - as global as the umask that it stands in for
    _in_use = modes


def in_use() -> Modes:
    """Return the modes for files and folders that this process makes from now on."""
    return _in_use


def at_first() -> Modes:
    """Return the modes to create with: closed to others until group and mode are set."""
    return PRIVATE if _in_use.exact else _in_use


def apply_to_file(handle: int, path: Path) -> None:
    """Give an open file its mode and group.

    :raises ConfigurationError: the file system or the operating system refuses.
    """
    _apply(handle, path, _in_use.file)


def apply_to_folder(path: Path) -> None:
    """Give a folder its mode and group; raises as `apply_to_file`."""
    _apply(path, path, _in_use.folder)


def open_up(root: Path) -> None:
    """Widen a staging area that is narrower than the mode in use, with everything in it.

    Files of other users, and files that are removed in the meantime, are left alone.
    """
    root = root.resolve()  # a link has a mode and a group of its own
    if not root.is_dir() or not _is_own(root) or not _lacks(root, _in_use.folder):
        return
    for path in _all_below(root):
        with suppress(FileNotFoundError):
            mode = _in_use.folder if path.is_dir() else _in_use.file
            if _is_own(path) and _lacks(path, mode):
                _apply(path, path, mode)


def wider(root: Path) -> Path | None:
    """Find a folder that lets in users that the mode in use keeps out; None if there is none.

    A closed folder closes all that is in it, and `root` itself may be a mount point that all users
    may enter; so the folders directly in it decide. A root in which other users may write is
    reported itself, because they could exchange what is in it.
    """
    allowed = _in_use.folder
    if not _in_use.exact or not _open_to_others(root, allowed):
        return None
    if _open_to_others(root, allowed) & _OTHERS_WRITE:
        return root
    folders = (path for path in sorted(root.iterdir()) if path.is_dir() and not path.is_symlink())
    return next((path for path in folders if _open_to_others(path, allowed)), None)


def _apply(place: int | Path, path: Path, mode: int) -> None:
    if not _in_use.exact:
        return
    try:
        found = os.stat(place)  # noqa: PTH116 - also of an open file
        if _in_use.gid is not None and found.st_gid != _in_use.gid:
            os.chown(place, -1, _in_use.gid)
        if found.st_mode & _BITS != mode:
            os.chmod(place, mode)  # noqa: PTH101 - also of an open file
    except PermissionError as error:
        raise ConfigurationError(
            f"{path} cannot be given the mode {mode:o} of {OPTION} = {_in_use.name}: "
            f"{error.strerror}. If the file system has modes of its own, set {OPTION} = inherit."
        ) from error


def _all_below(root: Path) -> Iterator[Path]:
    """List all files and folders, the deepest first, so that a folder opens last."""
    for folder, _, names in os.walk(root, topdown=False):
        yield from (root / folder / name for name in names)
        yield root / folder


def _is_own(path: Path) -> bool:
    return path.stat(follow_symlinks=False).st_uid == os.geteuid()


def _lacks(path: Path, mode: int) -> bool:
    """Return whether the mode in use would let in users that the current mode keeps out."""
    found = path.stat(follow_symlinks=False)
    other_group = _in_use.gid is not None and found.st_gid != _in_use.gid
    return _in_use.exact and (other_group or mode & ~found.st_mode & 0o777 != 0)


def _open_to_others(path: Path, allowed: int) -> int:
    """Return the bits of a folder's mode for group and others, beyond the allowed ones."""
    return path.stat().st_mode & 0o077 & ~allowed
