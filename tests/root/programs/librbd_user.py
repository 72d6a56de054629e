# SPDX-License-Identifier: Apache-2.0
"""A process that holds a virtual machine, or has a thread of the library's, and calls Ceph's
libraries in the directory given.

Told to (a line), it has a disk write and flush; messages lie in its memory as Ceph's do.
"""

import fcntl
import os
import struct
import sys
import threading
import time
from ctypes import CDLL, addressof, c_uint64, c_void_p, create_string_buffer, memmove

KVM_CREATE_VM, PR_SET_NAME = 0xAE01, 15
OSD_OP, OSD_OPREPLY, PING = 42, 43, 70
CLIENT, OSD = 4130, 2
BEFORE_NAME = 40_000
WRITE, WATCH, SET_ALLOC_HINT = 0x2201, 0x220F, 0x2221
V1 = "_ZN10ProtocolV113write_messageEP7MessageRN4ceph6buffer7v15_2_04listEb"
V2 = "_ZN10ProtocolV213write_messageEP7Messageb"
IMAGE_WRITE = "_ZN6librbd5Image9aio_writeEmmRN4ceph6buffer7v15_2_04listEPNS_3RBD13AioCompletionE"
IMAGE_FLUSH = "_ZN6librbd5Image9aio_flushEPNS_3RBD13AioCompletionE"
GET_RETURN_VALUE = "_ZN6librbd3RBD13AioCompletion16get_return_valueEv"
DISPATCH = "_ZN13DispatchQueue13fast_dispatchERKN5boost13intrusive_ptrI7MessageEE"

if sys.argv[2] == "kvm":
    machine = fcntl.ioctl(os.open("/dev/kvm", os.O_RDWR), KVM_CREATE_VM, 0)
rbd, common = CDLL(f"{sys.argv[1]}/librbd.so.1"), CDLL(f"{sys.argv[1]}/libceph-common.so.2")
kept: list[object] = []


def memory(content: bytes) -> int:
    """A place that has that for as long as the process lives."""
    room = create_string_buffer(content, len(content))
    kept.append(room)
    return addressof(room)


def step(opcode: int, offset: int, size: int) -> bytes:
    return struct.pack("<HIQQQII", opcode, 0, offset, size, 0, 0, 0)


def operation(name: bytes, *steps: bytes) -> bytes:
    """As MOSDOp, version 8, is encoded: what comes before the object's locator has a fixed size."""
    locator = struct.pack("<BBIQiII", 6, 3, 31, 1, -1, 0, 3) + b"abc" + bytes(8)
    return (
        bytes(99) + locator + struct.pack("<I", len(name)) + name
        + struct.pack("<H", len(steps)) + b"".join(steps) + bytes(40)
    )  # fmt: skip


def message(kind: int, number: int, who: tuple[int, int], front: bytes, version: int = 8) -> int:
    raw = memory(bytes(32) + struct.pack("<Q", memory(bytes(16) + front)))
    part = memory(struct.pack("<QQII", 0, raw, 16, len(front)))
    header = struct.pack(
        "<QQHHHIIIHBQHH", 1, number, kind, 63, version, len(front), 0, 0, 0, *who, 0, 0
    )
    body = bytes(24) + header
    body += bytes(104 - len(body)) + struct.pack("<QQQII", part, part, part, len(front), 1)
    return memory(body)


def image(disk: bytes, order: int, stripe: int, objects: int) -> c_void_p:
    """As librbd has an open one in its memory: its objects' names, and how it lies on them."""
    name = b"rbd_data." + disk
    told = bytes(BEFORE_NAME) + struct.pack("<QQ", memory(name + bytes(8)), len(name)) + bytes(800)
    # Nearly such a layout, and one; whose pool's space has no name, and lies in itself.
    near, layout = (
        struct.pack("<IIIxxxxQ", stripe, objects, size, 3) for size in (100, 1 << order)
    )
    place = memory(told + near + bytes(800) + layout + bytes(200_000))
    text = place + len(told) + len(near) + 800 + len(layout)
    memmove(text, struct.pack("<QQ", text + 16, 0), 16)
    return c_void_p(place)


def send(function: str, message: int) -> None:
    common[function](None, c_void_p(message), None, 0)


def of_classes(disk: c_void_p, number: int) -> None:
    """The same by the classes of C++: an object that points to the image."""
    this = c_void_p(memory(struct.pack("<Q", disk.value or 0)))
    one = c_void_p(0x30000 + 64 * number)
    rbd[IMAGE_WRITE](this, c_uint64(8192), c_uint64(2048), None, one)
    rbd[GET_RETURN_VALUE](one)
    rbd[IMAGE_FLUSH](this, one)
    rbd[GET_RETURN_VALUE](one)


def told_otherwise(disk: c_void_p, count: int) -> None:
    """By a function that it calls itself, here as the library would; or who waits for it."""
    for number in range(count):
        one = c_void_p(0x40000 + 64 * number)
        rbd.rbd_aio_write(disk, c_uint64(0), c_uint64(512), None, one)
        rbd.rbd_aio_wait_for_complete(one)
        rbd.rbd_discard(disk, c_uint64(0), c_uint64(512))
    made = c_void_p()
    rbd.rbd_aio_create_completion(None, rbd.called_back, addressof(made))
    time.sleep(1)
    for number in range(count):
        one = c_void_p(0x50000 + 64 * number)
        rbd.rbd_aio_write(disk, c_uint64(0), c_uint64(256), None, one)
        rbd.called_back(one, None)
    # Another disk comes to lie where this one was.
    memmove(c_uint64.from_address((disk.value or 0) + BEFORE_NAME).value + 9, b"2", 1)
    rbd.rbd_aio_write(disk, c_uint64(0), c_uint64(128), None, one)
    rbd.called_back(one, None)


def run(count: int) -> None:
    name = b"rbd_data.10226b8b4567.00000000000000ff"
    header = operation(b"rbd_header.10226b8b4567", step(WRITE, 0, 1))
    watch = operation(b"rbd_header.10226b8b4567", step(WATCH, 0, 0))
    journal = operation(b"journal_data.3.10226b8b4567.1", step(WRITE, 0, 1))
    disk = image(b"10226b8b4567", 21, 1 << 16, 3)
    for number in range(count):
        parts = memory(struct.pack("<QQQQ", 0, 4096, 0, 8192))
        one, other = c_void_p(0x10000 + 64 * number), c_void_p(0x20000 + 64 * number)
        rbd.rbd_aio_writev(disk, c_void_p(parts), 2, c_uint64(255 << 22), one)
        rbd.rbd_aio_write(disk, c_uint64(512), c_uint64(1024), None, other)
        hinted = operation(name, step(SET_ALLOC_HINT, 0, 0), step(WRITE, 8192 * number, 12288))
        send(V1 if number % 2 else V2, message(OSD_OP, number, (8, CLIENT), hinted))
        send(V2, message(OSD_OP, 5000, (8, CLIENT), header))
        send(V2, message(OSD_OP, 5004, (8, CLIENT), watch))
        send(V2, message(OSD_OP, 5003, (8, CLIENT), journal))
        send(V2, message(OSD_OP, 5001, (8, CLIENT), hinted, 7))
        send(V2, message(PING, 5002, (8, CLIENT), hinted))
        answer = c_uint64(message(OSD_OPREPLY, number, (4, OSD), bytes(8)))
        common[DISPATCH](None, c_void_p(addressof(answer)))
        rbd.rbd_aio_get_return_value(one)
        rbd.rbd_aio_flush(disk, other)
        rbd.rbd_aio_get_return_value(other)
        of_classes(disk, number)
        rbd.rbd_write(disk, c_uint64(512), c_uint64(4096), None)
        rbd.rbd_flush(disk)
    told_otherwise(disk, count)


def open_disk() -> None:
    """The library has a thread of that name for it; the recorder takes a moment to attach."""

    def serve() -> None:
        CDLL(None).prctl(PR_SET_NAME, b"taskfin_librbd")
        named.set()
        ended.wait()

    named, ended = threading.Event(), threading.Event()
    threading.Thread(target=serve, daemon=True).start()
    named.wait()
    time.sleep(1)


if sys.argv[2] == "before":
    open_disk()
print("up", flush=True)
for line in sys.stdin:
    if sys.argv[2] == "workload":
        open_disk()
    thread = threading.Thread(target=run, args=(int(line),))
    thread.start()
    thread.join()
    print("done", flush=True)
