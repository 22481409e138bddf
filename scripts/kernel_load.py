"""A load for kernel devices: one BPF program generates frames in the kernel, another one counts them there.

BPF_PROG_TEST_RUN with live frames runs a program that rewrites each frame and redirects it to one device, like a
network card with a full receive ring; a TCX program on the other device counts received frames and drops them. No
frame passes through this process, so it can saturate the kernel's forwarding.
"""

import ctypes
import json
import os
import socket
import struct
import sys
import time

NUMBERS = {"x86_64": 321, "aarch64": 280}
MAP_CREATE, MAP_LOOKUP, PROG_LOAD, TEST_RUN, LINK_CREATE = 0, 1, 5, 10, 28
PERCPU_ARRAY, SCHED_CLS, XDP, LIVE_FRAMES, TCX_INGRESS, TCX_DROP = 6, 3, 6, 2, 46, 2
ATTACH_XDP, GENERIC = 37, 2
# Frames per system call, and per batch inside of it.
REPEAT, BATCH = 1 << 14, 64
# The best window of this many seconds counts, after a warm-up.
WINDOW, WARM = 0.1, 0.3
# Seconds until the device must forward.
PATIENCE = 20
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    """The system call; `attributes` are bytes that the kernel may write to."""
    space = ctypes.create_string_buffer(bytes(attributes).ljust(144, b"\0"), 144)
    done = libc.syscall(NUMBERS[os.uname().machine], command, space, 144)
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


def insn(code, to=0, source=0, offset=0, value=0):
    return struct.pack("<BBhi", code, to | source << 4, offset, value)


def load(kind, program):
    """Loads a program; returns its descriptor."""
    code = ctypes.create_string_buffer(b"".join(program), 8 * len(program))
    name, log = ctypes.c_char_p(b"GPL"), ctypes.create_string_buffer(1 << 16)
    attributes = struct.pack("<IIQQIIQ", kind, len(program), ctypes.addressof(code),
                             ctypes.cast(name, ctypes.c_void_p).value, 1, len(log), ctypes.addressof(log))
    try:
        return bpf(PROG_LOAD, attributes)
    except OSError as error:
        sys.exit(f"the kernel rejects the BPF program: {error}\n{log.value.decode(errors='replace')}")


def checksum(header):
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def frame(size, to, destinations):
    """A UDP packet to 198.18.1.0; the identification decreases as the destination increases."""
    length = size - 4 - 14
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length, destinations, 0, 64, 17, 0,
                         socket.inet_aton("198.18.0.2"), socket.inet_aton("198.18.1.0"))
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    udp = struct.pack("!HHHH", 1024, 9, length - 20, 0)
    return (bytes.fromhex(to.replace(":", "")) + b"\2\0\0\0\0\1" + b"\x08\0" + header + udp).ljust(size - 4, b"Z")


def sender(index, example, destinations):
    """Loads a program that writes the first 44 bytes (the device has modified frames that return), a random destination
    and the matching identification, and redirects to the device with this index."""
    program = [insn(0x61, 6, 1, 0), insn(0x61, 3, 1, 4), insn(0xbf, 7, 6), insn(0x07, 6, value=44),
               insn(0x2d, 6, 3, 0)]
    words = struct.unpack("<11i", example[:44])
    program += [insn(0x62, 7, 0, 4 * at, word) for at, word in enumerate(words)]
    # r0 = random & (destinations - 1); the last byte of the address is at 33, of the identification at 19.
    program += [insn(0x85, value=7), insn(0x57, 0, value=destinations - 1), insn(0x73, 7, 0, 33),
                insn(0x73, 7, 0, 35), insn(0xb7, 1, value=destinations), insn(0x1f, 1, 0), insn(0x73, 7, 1, 19)]
    program[4] = insn(0x2d, 6, 3, len(program) - 5)
    program += [insn(0xb7, 1, value=index), insn(0xb7, 2, value=0), insn(0x85, value=23), insn(0x95)]
    return load(XDP, program)


def counter(index):
    """Counts frames received on the device with this index before the network stack, test frames and others; drops all.
    Returns the map and the descriptor that keeps the program attached."""
    counts = bpf(MAP_CREATE, struct.pack("<IIII", PERCPU_ARRAY, 4, 16, 1))
    # Test frames have a destination in 198.18.1.0/24 and are counted in the first word, others in the second. A helper
    # loads the address: only the first bytes of frames from packet sockets are linear.
    program = [insn(0xbf, 6, 1), insn(0x62, 10, 0, -4, 0), insn(0xbf, 2, 10), insn(0x07, 2, value=-4),
               insn(0x18, 1, 1, 0, counts), insn(0), insn(0x85, value=1), insn(0x15, 0, 0, 14, 0), insn(0xbf, 7, 0),
               insn(0xbf, 1, 6), insn(0xb7, 2, value=30), insn(0xbf, 3, 10), insn(0x07, 3, value=-8),
               insn(0xb7, 4, value=4), insn(0x85, value=26), insn(0x61, 1, 10, -8), insn(0x57, 1, value=0xffffff),
               insn(0x15, 1, 0, 1, 0x0112c6), insn(0x07, 7, value=8),
               insn(0x79, 1, 7, 0), insn(0x07, 1, value=1), insn(0x7b, 7, 1, 0),
               insn(0xb7, 0, value=TCX_DROP), insn(0x95)]
    program[1:1] = [insn(0x62, 10, 0, -8, 0)]
    link = bpf(LINK_CREATE, struct.pack("<IIII", load(SCHED_CLS, program), index, TCX_INGRESS, 0))
    return counts, link


class Load:
    """Sends frames of one size on `out` to the MAC address `to`, and counts frames received on `back`."""

    def __init__(self, out, back, to, size, destinations):
        self.example = ctypes.create_string_buffer(frame(size, to, destinations), size - 4)
        self.context = ctypes.create_string_buffer(struct.pack("<6I", 0, size - 4, 0, 0, 0, 0), 24)
        self.program = sender(socket.if_nametoindex(out), self.example.raw, destinations)
        # When the program is attached to a device, the kernel does not patch its code at each call, which takes about
        # 10 ms; `lo` carries no traffic.
        self.stay = bpf(LINK_CREATE, struct.pack("<IIII", self.program, socket.if_nametoindex("lo"), ATTACH_XDP, GENERIC))
        self.counts, self.link = counter(socket.if_nametoindex(back))
        processors = open("/sys/devices/system/cpu/possible", encoding="ascii").read().strip()
        self.values = ctypes.create_string_buffer(16 * (int(processors.split("-")[-1]) + 1))
        self.key = ctypes.create_string_buffer(4)
        self.sent = 0

    def send(self, frames=REPEAT):
        """Sends this many frames with one system call."""
        bpf(TEST_RUN, struct.pack(
            "<IIIIQQIIIIQQIII", self.program, 0, len(self.example), 0, ctypes.addressof(self.example), 0,
            frames, 0, len(self.context), 0, ctypes.addressof(self.context), 0, LIVE_FRAMES, 0, BATCH))
        self.sent += frames

    def seen(self):
        """Received test frames and other frames so far."""
        bpf(MAP_LOOKUP, struct.pack("<IIQQ", self.counts, 0, ctypes.addressof(self.key),
                                    ctypes.addressof(self.values)))
        each = list(struct.iter_unpack("<QQ", self.values.raw))
        return sum(count for count, _ in each), sum(other for _, other in each)

    def wait(self):
        """Waits until the first frame returns, which means that the device forwards."""
        ends = time.monotonic() + PATIENCE
        while self.seen()[0] == 0:
            if time.monotonic() > ends:
                sys.exit(f"no frame returned within {PATIENCE} s")
            self.send(BATCH)
            time.sleep(0.05)

    def run(self, seconds):
        """Sends for this many seconds; returns the window with the highest received rate as a dictionary."""
        self.wait()
        best, ends = None, time.monotonic() + WARM
        while time.monotonic() < ends:
            self.send()
        begun, (first, strange), sent = time.monotonic(), self.seen(), self.sent
        while time.monotonic() - begun < seconds:
            start, (before, _), was = time.monotonic(), self.seen(), self.sent
            while time.monotonic() - start < WINDOW:
                self.send()
            (after, _), lasted = self.seen(), time.monotonic() - start
            window = {"mpps": round((after - before) / lasted / 1e6, 4),
                      "sent_mpps": round((self.sent - was) / lasted / 1e6, 4)}
            best = window if best is None or window["mpps"] > best["mpps"] else best
        lasted, (last, others) = time.monotonic() - begun, self.seen()
        return {**best, "mean_mpps": round((last - first) / lasted / 1e6, 4), "received": last - first,
                "sent": self.sent - sent, "foreign": others - strange}


def main():
    """`OUT BACK MAC SIZE DESTINATIONS SECONDS`: prints one JSON object."""
    out, back, to, size, destinations, seconds = sys.argv[1:]
    print(json.dumps(Load(out, back, to, int(size), int(destinations)).run(float(seconds))))


if __name__ == "__main__":
    main()
