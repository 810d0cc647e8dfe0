"""A disk that does not tell upper from lower case but keeps how a name was first written, as macOS and Windows have.

A directory of another disk, served through the kernel's FUSE protocol by a process of its own: no library and no
command is needed, only /dev/fuse and the right to mount.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LIBC = ctypes.CDLL(None, use_errno=True)
_DETACH = 2
_HEADER, _OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
_ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
_BUFFER = 1 << 20
_WRITE = 1 << 17
_FORGET, _BATCH_FORGET, _INTERRUPT, _DESTROY = 2, 42, 36, 38


@contextmanager
def folding_disk(backing: str, mounted: str) -> Iterator[None]:
    """Serve a directory, at another one, as a disk that folds case. Raises OSError where nothing can be mounted."""
    os.makedirs(backing, exist_ok=True)
    os.makedirs(mounted, exist_ok=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},max_read={_WRITE}"
        if _LIBC.mount(b"folding", mounted.encode(), b"fuse", 0, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")
        server = subprocess.Popen([sys.executable, __file__, backing, str(device)], pass_fds=[device])
    finally:
        os.close(device)
    try:
        yield
    finally:
        _LIBC.umount2(mounted.encode(), _DETACH)
        server.kill()
        server.wait()


def can_mount(directory: str) -> bool:
    """Whether this process may mount such a disk."""
    try:
        with folding_disk(f"{directory}/backing", f"{directory}/mounted"):
            return os.listdir(f"{directory}/mounted") == []
    except OSError:
        return False


class Disk:
    """Answers the kernel's requests. Nodes are paths in the backing directory, as they are written there."""

    def __init__(self, root: str) -> None:
        self.paths, self.nodes = {1: root}, {root: 1}
        self.open: dict[int, int | list[tuple[str, os.stat_result]]] = {}
        self.next = 2

    # --- Names

    def real(self, parent: int, name: str) -> str:
        """The path of a name in a directory, as the disk has it, or as it would be written."""
        above = self.paths[parent]
        exact = f"{above}/{name}"
        if os.path.lexists(exact):
            return exact
        folded = name.casefold()
        return next((f"{above}/{there}" for there in os.listdir(above) if there.casefold() == folded), exact)

    def node(self, path: str) -> int:
        if path not in self.nodes:
            self.nodes[path], self.paths[self.next] = self.next, path
            self.next += 1
        return self.nodes[path]

    def gone(self, path: str) -> None:
        """A later file of that name is another one."""
        for each in [each for each in self.nodes if each == path or each.startswith(f"{path}/")]:
            del self.nodes[each]

    def moved(self, old: str, new: str) -> None:
        self.gone(new)
        for each in [each for each in self.nodes if each == old or each.startswith(f"{old}/")]:
            node = self.nodes.pop(each)
            self.paths[node] = new + each[len(old) :]
            self.nodes[self.paths[node]] = node

    # --- Answers

    def attributes(self, path: str, node: int) -> bytes:
        found = os.lstat(path)
        times = [each // 10**9 for each in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)]
        parts = [each % 10**9 for each in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)]
        who = (found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0)
        return _ATTR.pack(node, found.st_size, found.st_blocks, *times, *parts, *who)

    def entry(self, path: str) -> bytes:
        node = self.node(path)
        return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + self.attributes(path, node)

    def answer(self, code: int, node: int, body: bytes) -> bytes:
        return _ANSWERS[code](self, node, body)

    def init(self, _: int, body: bytes) -> bytes:
        major, _minor, ahead, _flags = struct.unpack_from("<IIII", body)
        big_writes = 1 << 5
        return struct.pack("<IIIIHHIIHHI28x", major, 31, ahead, big_writes, 16, 12, _WRITE, 1, 0, 0, 0)

    def lookup(self, node: int, body: bytes) -> bytes:
        return self.entry(self.real(node, _text(body)))

    def getattr(self, node: int, _: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self.attributes(self.paths[node], node)

    def setattr(self, node: int, body: bytes) -> bytes:
        valid, _, _, size, _, atime, mtime, _, atimens, mtimens, _, mode = struct.unpack_from("<IIQQQQQQIIII", body)
        path = self.paths[node]
        if valid & 1:
            os.chmod(path, mode)
        if valid & 8:
            os.truncate(path, size)
        if valid & 0x180:  # now
            os.utime(path)
        elif valid & 0x30:
            before = os.lstat(path)
            accessed = atime * 10**9 + atimens if valid & 0x10 else before.st_atime_ns
            os.utime(path, ns=(accessed, mtime * 10**9 + mtimens if valid & 0x20 else before.st_mtime_ns))
        return self.getattr(node, b"")

    def mkdir(self, node: int, body: bytes) -> bytes:
        path = self.real(node, _text(body[8:]))
        os.mkdir(path, struct.unpack_from("<I", body)[0])
        return self.entry(path)

    def unlink(self, node: int, body: bytes) -> bytes:
        path = self.real(node, _text(body))
        os.unlink(path)
        self.gone(path)
        return b""

    def rmdir(self, node: int, body: bytes) -> bytes:
        path = self.real(node, _text(body))
        os.rmdir(path)
        self.gone(path)
        return b""

    def rename(self, node: int, body: bytes, skip: int = 8) -> bytes:
        target = struct.unpack_from("<Q", body)[0]
        flags = struct.unpack_from("<I", body, 8)[0] if skip == 16 else 0
        old, new = body[skip:].split(b"\0")[:2]
        source, place = self.real(node, os.fsdecode(old)), self.real(target, os.fsdecode(new))
        if source == place:  # only its spelling changes
            place = f"{self.paths[target]}/{os.fsdecode(new)}"
        elif flags & 1 and os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, place)
        os.rename(source, place)
        self.moved(source, place)
        return b""

    def rename2(self, node: int, body: bytes) -> bytes:
        return self.rename(node, body, 16)

    def link(self, node: int, body: bytes) -> bytes:
        path = self.real(node, _text(body[8:]))
        os.link(self.paths[struct.unpack_from("<Q", body)[0]], path)
        return self.entry(path)

    def open_file(self, node: int, body: bytes) -> bytes:
        flags = struct.unpack_from("<I", body)[0] & ~(os.O_CREAT | os.O_EXCL | os.O_APPEND)
        return self._opened(os.open(self.paths[node], flags))

    def _opened(self, value: int | list[tuple[str, os.stat_result]]) -> bytes:
        handle = max(self.open, default=0) + 1
        self.open[handle] = value
        return struct.pack("<QII", handle, 0, 0)

    def create(self, node: int, body: bytes) -> bytes:
        flags, mode = struct.unpack_from("<II", body)
        path = self.real(node, _text(body[16:]))
        handle = os.open(path, (flags | os.O_CREAT) & ~os.O_APPEND, mode)
        return self.entry(path) + self._opened(handle)

    def read(self, _: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        return os.pread(self.open[handle], size, offset)  # type: ignore[arg-type]

    def write(self, _: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        return struct.pack("<II", os.pwrite(self.open[handle], body[40 : 40 + size], offset), 0)  # type: ignore[arg-type]

    def release(self, _: int, body: bytes) -> bytes:
        value = self.open.pop(struct.unpack_from("<Q", body)[0])
        if isinstance(value, int):
            os.close(value)
        return b""

    def nothing(self, _: int, __: bytes) -> bytes:
        return b""

    def statfs(self, node: int, _: bytes) -> bytes:
        found = os.statvfs(self.paths[node])
        room = (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
        return struct.pack("<QQQQQIIII24x", *room, found.f_bsize, 255, found.f_frsize, 0)

    def opendir(self, node: int, _: bytes) -> bytes:
        path = self.paths[node]
        there = []
        for name in os.listdir(path):
            with suppress(FileNotFoundError):
                there.append((name, os.lstat(f"{path}/{name}")))
        return self._opened(there)

    def readdir(self, _: int, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        found = b""
        for at, (name, status) in enumerate(self.open[handle]):  # type: ignore[arg-type]
            text = os.fsencode(name)
            one = struct.pack("<QQII", status.st_ino, at + 1, len(text), status.st_mode >> 12) + text
            one += b"\0" * (-len(one) % 8)
            if at < offset:
                continue
            if len(found) + len(one) > size:
                break
            found += one
        return found


_ANSWERS: dict[int, Callable[[Disk, int, bytes], bytes]] = {
    1: Disk.lookup,
    3: Disk.getattr,
    4: Disk.setattr,
    9: Disk.mkdir,
    10: Disk.unlink,
    11: Disk.rmdir,
    12: Disk.rename,
    13: Disk.link,
    14: Disk.open_file,
    15: Disk.read,
    16: Disk.write,
    17: Disk.statfs,
    18: Disk.release,
    20: Disk.nothing,  # fsync
    25: Disk.nothing,  # flush
    26: Disk.init,
    27: Disk.opendir,
    28: Disk.readdir,
    29: Disk.release,
    30: Disk.nothing,  # fsyncdir
    34: Disk.nothing,  # access
    35: Disk.create,
    45: Disk.rename2,
}


def _text(body: bytes) -> str:
    return os.fsdecode(body.split(b"\0")[0])


def serve(root: str, device: int) -> None:
    """Answer requests until the disk is unmounted."""
    disk = Disk(root)
    while True:
        try:
            request = os.read(device, _BUFFER)
        except OSError as problem:
            if problem.errno == errno.ENODEV:
                return
            if problem.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                continue
            raise
        _, code, unique, node, *_ = _HEADER.unpack_from(request)
        if code in (_FORGET, _BATCH_FORGET, _INTERRUPT, _DESTROY):
            continue
        body, failed = b"", 0
        try:
            body = disk.answer(code, node, request[_HEADER.size :])
        except OSError as problem:
            failed = problem.errno or errno.EIO
        except KeyError:
            failed = errno.ENOSYS if code not in _ANSWERS else errno.ESTALE
        with suppress(OSError):  # the caller was interrupted
            os.write(device, _OUT.pack(_OUT.size + len(body), -failed, unique) + body)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
