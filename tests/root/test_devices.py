# SPDX-License-Identifier: Apache-2.0
"""--device: the writes to all that is on a disk, whatever is between, and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from iostrata.trace.layout import UNSEEN_UNDECIDED
from iostrata.trace.read import read_trace
from tests.root.conftest import iostrata, loop_device
from tests.root.test_record import good

WRITES = 20
WRITER = f"""
import os, sys
for name in sys.argv[1:]:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    for _ in range({WRITES}):
        os.write(fd, bytes(4096))
        os.fdatasync(fd)
os.sync()
"""


def device_of(path: Path) -> str:
    """The source of the mount that a path is on."""
    command = ["findmnt", "--nofsroot", "-no", "SOURCE", "-T", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def btrfs(disk: Path) -> Iterator[Path]:
    """On a loop device."""
    image, place = disk / "btrfs-image", disk / "btrfs"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(200 << 20)
    try:
        subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no btrfs here: {error}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def recorded(directory: Path, device: str, *files: Path) -> dict[str, Any]:
    """What was recorded of writes to files of which some are on the device."""
    done = iostrata("run", "-o", str(directory), "--json", "-", "--by", "file", "--device", device,
                    "--", sys.executable, "-c", WRITER, *map(str, files))  # fmt: skip
    good(done.returncode, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def undecided(recording: Path) -> int:
    """How many calls were left out as --device could not decide about them."""
    unseen = read_trace(recording).points["unseen"]
    so_far = [int(count) for kind, count in zip(unseen["kind"], unseen["count"], strict=True)
              if kind == UNSEEN_UNDECIDED]  # fmt: skip
    return sum(so_far[-1:])


def written(document: dict[str, Any]) -> dict[str, int]:
    return {group["name"]: group["writes"] for group in document["groups"]}


def test_an_overlay_is_on_the_disk_of_its_upper_directory(overlay: Path, disk: Path) -> None:
    ext4 = disk / "ext4"
    inside = (overlay / "a", ext4 / "c")
    outside = (disk / "plain", Path("/dev/shm") / f"iostrata-{disk.name}")
    try:
        found = recorded(disk / "recording", device_of(ext4), *inside, *outside)
    finally:
        outside[1].unlink(missing_ok=True)
    assert written(found) == {str(path): WRITES for path in inside}
    gaps = {gap["layer"]: gap["reason"] for gap in found["quality"]["not_observed"]}
    # sync() is for all disks; nothing else was left out that may have been for this one.
    assert gaps["calls of sync"].startswith("1 left out")
    assert not [layer for layer in gaps if "cannot decide" in layer]
    shown = iostrata("replay", str(disk / "recording")).stdout
    assert f"overlay (ext4), ext4 to {Path(device_of(ext4)).name}\n" in shown.replace(
        "ext4, overlay (ext4)", "overlay (ext4), ext4"
    )


def test_what_is_stacked_on_a_disk_is_on_it(overlay: Path, btrfs: Path, disk: Path) -> None:
    """File systems on loop devices whose files are on it, and an overlay on one of those."""
    below = device_of(disk)
    if not below.startswith("/dev/"):
        pytest.skip(f"the tests' directory is on {below}")
    files = (overlay / "a", btrfs / "b", disk / "ext4" / "c", disk / "plain")
    found = recorded(disk / "recording", below, *files)
    assert written(found) == {str(path): WRITES for path in files}


def test_a_btrfs_is_on_its_devices(btrfs: Path, disk: Path) -> None:
    files = (btrfs / "b", disk / "plain")
    found = recorded(disk / "recording", Path(device_of(btrfs)).name, *files)
    assert written(found) == {str(btrfs / "b"): WRITES}


LATE = """
set -e
trap 'umount "$2"' EXIT
mount "$1" "$2"
dd if=/dev/zero of="$2/b" bs=4k count=20 oflag=dsync status=none
sleep 2
dd if=/dev/zero of="$2/b" bs=4k count=20 oflag=dsync status=none
"""


def test_a_btrfs_that_is_mounted_while_it_records_is_decided_or_counted(
    recorder: Path, btrfs: Path, disk: Path
) -> None:
    """Its number is no device's, and no device changes when it is mounted."""
    late = disk / "late"
    late.mkdir()
    with ExitStack() as teardown:
        loop = loop_device(disk / "image", 200 << 20, teardown)
        subprocess.run(["mkfs.btrfs", "-q", loop], check=True, capture_output=True)
        words = [str(recorder), "-o", str(disk / "recording"), "--device", device_of(disk), "--"]
        words += ["sh", "-c", LATE, "sh", loop, str(late)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    good(done.returncode, done.stderr)
    assert btrfs.exists()
    points = read_trace(disk / "recording").points
    written = points["syscall"]["size_bytes"].tolist().count(4096)
    assert written >= 20
    assert written + undecided(disk / "recording") == 40


def test_what_was_mounted_meanwhile_elsewhere_is_decided_or_counted(
    overlay: Path, disk: Path
) -> None:
    """As by a container: in a mount namespace of its own, which the recorder does not see."""
    ext4 = disk / "ext4"
    for name in ("upper2", "work2", "merged2"):
        (ext4 / name).mkdir()
    options = f"lowerdir={disk / 'low'},upperdir={ext4}/upper2,workdir={ext4}/work2"
    script = f'mount -t overlay overlay -o {options} {ext4}/merged2 && exec "$@"'
    done = iostrata("run", "--json", "-", "--by", "file_system", "--device", device_of(ext4), "--",
                    "unshare", "-m", "sh", "-c", script, "sh",
                    sys.executable, "-c", WRITER, str(ext4 / "merged2" / "a"))  # fmt: skip
    good(done.returncode, done.stderr)
    assert written(json.loads(done.stdout)) == {"overlay (ext4)": WRITES}
    assert overlay.exists()


BOUND = """
set -e
trap 'for one in $bound; do losetup --detach "$one"; done' EXIT
for image; do
    one=$(losetup --find --show "$image")
    bound="$bound $one"
done
dd if=/dev/zero of="$one" bs=4k count=20 oflag=dsync status=none
sleep 1
dd if=/dev/zero of="$one" bs=4k count=20 oflag=dsync status=none
"""


def test_a_loop_device_that_is_set_up_beside_others_is_decided_or_counted(
    recorder: Path, disk: Path
) -> None:
    """Without a file it is on no disk; with one, on none that is known yet."""
    images = [disk / f"image{number}" for number in range(4)]
    for image in images:
        image.write_bytes(bytes(1 << 20))
    command = [str(recorder), "-o", str(disk / "recording"), "--device", device_of(disk)]
    command += ["--", "sh", "-c", BOUND, "sh", *map(str, images)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    good(done.returncode, done.stderr)
    written = read_trace(disk / "recording").points["syscall"]["size_bytes"].tolist().count(4096)
    assert written >= 20
    assert written + undecided(disk / "recording") == 40


Reused = Callable[..., Counter[int]]

REUSED = """
set -e
trap 'mountpoint -q "$2" && umount "$2"; losetup --detach "$1" || true' EXIT
fill() { dd if=/dev/zero of="$1" bs="$2" count=20 oflag=dsync conv=notrunc status=none; }
with() {
    if [ "$5" = ext4 ]; then
        mount "$1" "$2"; fill "$2/data" "$4"; [ "$3" = first ] || { sleep 2; fill "$2/data" "$4"; }
        umount "$2"
    else
        fill "$1" "$4"; [ "$3" = first ] || { sleep 2; fill "$1" "$4"; }
    fi
}
with "$1" "$2" first "$4" "$6"
losetup --detach "$1"
losetup "$1" "$3"
with "$1" "$2" second "$5" "$6"
"""


@pytest.fixture(params=["ext4", "node"])
def reused(request: pytest.FixtureRequest, recorder: Path, disk: Path) -> Reused:
    """Records a loop device (with ``--device`` of it, where none is given) that has a file and then
    another, and is written to 20 times with the one, 40 times with the other: how many of these
    writes, of the sizes given with the files, were recorded; as a device, or what is mounted."""

    def record(device: str | None, *files: tuple[Path, str]) -> Counter[int]:
        (disk / "mounted").mkdir()
        (first, first_size), (second, second_size) = files
        for image in (first, second):
            image.touch()
            os.truncate(image, 8 << 20)
            subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
        attach = ["losetup", "--find", "--show", str(first)]
        made = subprocess.run(attach, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"no loop device: {made.stderr.strip()}")
        loop = made.stdout.strip()
        words = [str(recorder), "-o", str(disk / "recording"), "--device", device or loop, "--"]
        words += ["sh", "-c", REUSED, "sh", loop, str(disk / "mounted"), str(second)]
        words += [first_size, second_size, request.param]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        good(done.returncode, done.stderr)
        return Counter(read_trace(disk / "recording").points["syscall"]["size_bytes"].tolist())

    return record


def test_a_number_says_nothing_of_the_file_that_a_loop_device_had_before(
    reused: Reused, overlay: Path, disk: Path
) -> None:
    """15 writes to a disk were missing without a word, or 25 were there that were not for it."""
    ext4 = disk / "ext4"
    found = reused(device_of(ext4), (disk / "outside", "8k"), (ext4 / "inside", "4k"))
    assert overlay.exists()
    assert found[8192] == 0
    assert found[4096] >= 20
    assert found[4096] + undecided(disk / "recording") == 40


def test_what_another_file_is_on_is_not_taken_for_what_the_first_one_was_on(
    reused: Reused, overlay: Path, disk: Path
) -> None:
    ext4 = disk / "ext4"
    found = reused(device_of(ext4), (ext4 / "inside", "4k"), (disk / "outside", "8k"))
    assert overlay.exists()
    assert found == Counter({4096: 20})


def test_a_loop_device_that_is_asked_for_is_so_with_whatever_file(
    reused: Reused, disk: Path
) -> None:
    found = reused(None, (disk / "one", "4k"), (disk / "other", "8k"))
    assert found == Counter({4096: 20, 8192: 40})
    assert undecided(disk / "recording") == 0


ON_REUSED = """
set -e
trap 'losetup --detach "$1"; umount "$3" || true; losetup --detach "$2"' EXIT
mount "$2" "$3"
sleep 1
# Each of these is a change; what comes right behind the first is looked at some time later.
mount --bind "$3" "$3"; umount "$3"; sleep 0.05
umount "$3"; losetup --detach "$2"
losetup "$2" "$4"; mount "$2" "$3"; losetup "$1" "$3/image"
sleep 1
dd if=/dev/zero of="$1" bs=8k count=20 oflag=dsync status=none
"""


def test_what_lies_on_a_loop_device_that_has_another_file_by_now(
    recorder: Path, overlay: Path, disk: Path
) -> None:
    """Of two that change at once the first one in the list is decided by what the other is on."""
    mounted = disk / "mounted"
    mounted.mkdir()
    images = [disk / "ext4" / "inside", disk / "outside"]
    for image in images:
        image.touch()
        os.truncate(image, 16 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    with ExitStack() as teardown:
        # A place in the list before the other's.
        first = loop_device(disk / "held", 1 << 20, teardown)
        other = loop_device(disk / "held", 1 << 20, teardown)
    if first > other:
        pytest.skip(f"{first} comes behind {other}")
    subprocess.run(["losetup", other, str(images[0])], check=True)
    subprocess.run(["mount", "-o", "loop", str(images[1]), str(mounted)], check=True)
    (mounted / "image").write_bytes(bytes(1 << 20))
    subprocess.run(["umount", str(mounted)], check=True)
    words = [str(recorder), "-o", str(disk / "recording"), "--device", device_of(disk / "ext4")]
    words += ["--", "sh", "-c", ON_REUSED, "sh", first, other, str(mounted), str(images[1])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    good(done.returncode, done.stderr)
    assert overlay.exists()
    sizes = read_trace(disk / "recording").points["syscall"]["size_bytes"].tolist()
    assert sizes.count(8192) == undecided(disk / "recording") == 0


def test_a_machine_without_disks(recorder: Path, tmp_path: Path) -> None:
    """As a client of NFS may be."""
    (tmp_path / "none").mkdir()
    script = 'mount --bind "$1" /sys/class/block && exec "$0" -o "$2" -- true'
    words = ["unshare", "--mount", "sh", "-c", script, recorder, tmp_path / "none"]
    done = subprocess.run(
        [*map(str, words), str(tmp_path / "recording")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not read_trace(tmp_path / "recording").facts.blocks
