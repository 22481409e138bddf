"""Many flows of many addresses: datagrams of IPv4 and, to NAT64, of IPv6, connections, and files by active FTP.

    subscribers.py SERVER SERVER6 PORT FLOWS PERIOD SEED

Each flow of datagrams sends once in PERIOD seconds, so that it lives. Each second, a line says how many had an answer
in the last round, and what else happened. SIGTERM ends everything in order: no file is announced that is not fetched.
"""

import json
import os
import random
import selectors
import signal
import socket
import struct
import sys
import threading
import time

SERVER, SERVER6, PORT, FLOWS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
PERIOD, SEED = float(sys.argv[5]), int(sys.argv[6])
# Ports of each address; flows of NAT64 for each flow of IPv4; connections.
PORTS = 50 if FLOWS < 50_000 else 100
FLOWS6 = FLOWS // 20
CONNECTIONS = max(20, FLOWS // 50)
SESSIONS = 4
FIRST = 20_000
FILE = b"what the server has\n"
# What the module does not name.
IP_PKTINFO = 8
SO_RCVBUFFORCE = 33
IPV6_FREEBIND = 78
HEAD = struct.Struct("=II")

stopping = threading.Event()
counts = {"strays": 0, "corrupt": 0, "opened": 0, "echoed": 0, "files": 0, "abandoned": 0, "failed": 0}


def subscriber(number):
    """An address of 198.19.0.0/16."""
    return f"198.19.{number // 250}.{number % 250 + 1}"


class Datagrams:
    """Flows of one family: each has an address and a port. Few sockets send for all of them."""

    def __init__(self, family, count):
        self.count, self.sent, self.due = count, 0, 0.0
        # Flows with an answer in the present round and in the one before it.
        self.answered = [0, 0]
        four = family == socket.AF_INET
        self.level = socket.IPPROTO_IP if four else socket.IPPROTO_IPV6
        self.kind = IP_PKTINFO if four else socket.IPV6_PKTINFO
        self.server = (SERVER if four else SERVER6, PORT)
        addresses = [
            socket.inet_pton(family, subscriber(it) if four else f"2001:db8:a::{it + 1:x}")
            for it in range((count + PORTS - 1) // PORTS)]
        self.sources = [
            struct.pack("=I4s4s", 0, it, bytes(4)) if four else struct.pack("=16sI", it, 0)
            for it in addresses]
        self.addresses = addresses
        self.sockets = []
        for port in range(FIRST, FIRST + PORTS):
            it = socket.socket(family, socket.SOCK_DGRAM)
            it.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 21)
            if four:
                it.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
            else:
                it.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                it.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
                it.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            it.bind(("", port))
            it.setblocking(False)
            self.sockets.append(it)

    def send(self, elapsed):
        """Sends for as many flows as are due: flow by flow, round by round. What is late is not made up in a burst."""
        rate = self.count / PERIOD
        self.due = min(self.due + elapsed * rate, rate / 2 + 1)
        for _ in range(int(self.due)):
            self.due -= 1
            flow = self.sent % self.count
            if not flow:
                self.answered = [0, self.answered[0]]
            address, port = divmod(flow, PORTS)
            data = HEAD.pack(flow, self.sent & 0xffff_ffff) + bytes(24)
            try:
                self.sockets[port].sendmsg([data], [(self.level, self.kind, self.sources[address])], 0, self.server)
            except OSError:
                # The link is down, or an ICMP error has come.
                pass
            self.sent += 1

    def receive(self, it):
        """Takes the answers at a socket. They are for the flow that has sent them, unless ports have changed."""
        try:
            for _ in range(64):
                data, more, _, _ = it.recvmsg(64, 64)
                flow, number = HEAD.unpack_from(data)
                if len(data) != 32 or flow >= self.count:
                    counts["corrupt"] += 1
                    continue
                address, port = divmod(flow, PORTS)
                at = more[0][2][8:12] if self.level == socket.IPPROTO_IP else more[0][2][:16]
                if self.sockets[port] is it and self.addresses[address] == at:
                    age = self.round() - number // self.count
                    if age < 2:
                        self.answered[age] += 1
                else:
                    counts["strays"] += 1
        except OSError:
            pass

    def round(self):
        """The number of the present round."""
        return (self.sent - 1) // self.count


class Connection:
    """A connection that echoes some times, and ends by a FIN, half of it or a reset. Then comes the next one."""

    def __init__(self, number, ready, chance):
        self.number, self.ready, self.chance = number, ready, chance
        self.socket, self.due, self.left, self.is_open = None, 0.0, 0, False

    def begin(self, now):
        """Opens it."""
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.left, self.is_open, self.due = self.chance.randrange(1, 6), False, now + 3 + PERIOD
        try:
            self.socket.bind((subscriber(self.number), 0))
            self.socket.connect_ex((SERVER, PORT))
            self.ready.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        except OSError:
            self.end(now, failed=True)

    def end(self, now, failed=False):
        """Ends it; a new one begins a little later."""
        if self.socket:
            try:
                self.ready.unregister(self.socket)
            except KeyError:
                pass
            if failed or self.chance.random() < 0.3:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.close()
        counts["failed"] += failed
        self.socket, self.due = None, now + self.chance.random() * PERIOD

    def happens(self, mask, now):
        """It has opened, or an echo has come."""
        try:
            if not self.is_open and mask & selectors.EVENT_WRITE:
                error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    return self.end(now, failed=True)
                self.is_open = True
                counts["opened"] += 1
                self.ready.modify(self.socket, selectors.EVENT_READ, self)
                self.socket.send(b"echo")
                self.due = now + 3 + PERIOD
            elif mask & selectors.EVENT_READ:
                data = self.socket.recv(64)
                counts["echoed"] += data == b"echo"
                self.left -= 1
                if data and not self.left and self.chance.random() < 0.3:
                    self.socket.shutdown(socket.SHUT_WR)
                elif not data or self.left <= 0:
                    return self.end(now, failed=not data and self.left > 0)
                # The next echo is sent in a period.
                self.due = -(now + PERIOD * self.chance.random())
        except OSError:
            self.end(now, failed=True)
        return None

    def tick(self, now):
        """Begins, sends again, or gives up."""
        if self.due > 0 and now < self.due or self.due < 0 and now < -self.due:
            return
        if not self.socket:
            if not stopping.is_set():
                self.begin(now)
        elif self.due > 0:
            self.end(now, failed=True)
        else:
            self.due = now + 3 + PERIOD
            try:
                self.socket.send(b"echo")
            except OSError:
                self.end(now, failed=True)


def session(number):
    """Fetches files by active FTP over one control connection. It may end with a file that is announced."""
    address = subscriber(number)
    is_expected = False
    with socket.socket() as control, socket.create_server((address, 0)) as listener:
        control.settimeout(3)
        listener.settimeout(3)
        control.bind((address, 0))
        try:
            control.connect((SERVER, 21))
            lines = control.makefile("rb")
            lines.readline()
            port = listener.getsockname()[1]
            announcements = [
                f"PORT {address.replace('.', ',')},{port // 256},{port % 256}\r\n", f"EPRT |1|{address}|{port}|\r\n"]
            while not stopping.is_set():
                announcements.reverse()
                is_expected = True
                control.sendall(announcements[0].encode())
                if not lines.readline().startswith(b"200"):
                    raise OSError("no answer")
                control.sendall(b"RETR file\r\n")
                answer = lines.readline()
                if not answer:
                    raise OSError("the end")
                if answer.startswith(b"226"):
                    data, _ = listener.accept()
                    with data:
                        data.settimeout(3)
                        counts["files"] += data.makefile("rb").read() == FILE
                    is_expected = False
                stopping.wait(0.2)
        finally:
            counts["abandoned"] += is_expected


def sessions(number):
    """One session after another."""
    while not stopping.is_set():
        try:
            session(number)
        except OSError:
            counts["failed"] += 1
            stopping.wait(0.2)


def report(flows):
    """Prints a line."""
    four, six = flows
    rounds = {"round4": four.round(), "ip4": four.answered[1], "round6": six.round(), "ip6": six.answered[1]}
    print(json.dumps({**rounds, **counts}), flush=True)


def main():
    """Runs until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    chance = random.Random(SEED)
    ready = selectors.DefaultSelector()
    flows = [Datagrams(socket.AF_INET, FLOWS), Datagrams(socket.AF_INET6, FLOWS6)]
    for of in flows:
        for it in of.sockets:
            ready.register(it, selectors.EVENT_READ, of)
    addresses = len(flows[0].addresses)
    connections = [Connection(it % addresses, ready, chance) for it in range(CONNECTIONS)]
    threads = [threading.Thread(target=sessions, args=(it * 7 % addresses,)) for it in range(SESSIONS)]
    for thread in threads:
        thread.start()
    last = before = time.monotonic()
    while not stopping.is_set():
        events = ready.select(0.02)
        now = time.monotonic()
        for key, mask in events:
            if isinstance(key.data, Datagrams):
                key.data.receive(key.fileobj)
            elif key.data.socket is key.fileobj:
                key.data.happens(mask, now)
        for of in flows:
            of.send(now - before)
        before = now
        for it in connections:
            it.tick(now)
        if now >= last + 1:
            last = now
            report(flows)
    for thread in threads:
        thread.join()
    for it in connections:
        if it.socket:
            it.end(time.monotonic())
    report(flows)
    # Without what Python does at its end.
    os._exit(0)


main()
