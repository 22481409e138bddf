"""What subscribers reach: an echo of datagrams and of connections at one port, and a small FTP server at port 21.

    servers.py ADDRESS PORT
"""

import re
import selectors
import socket
import sys
import threading

FILE = b"what the server has\n"
# What the module does not name.
SO_RCVBUFFORCE = 33


def ftp(control):
    """Sends the file to whom the client names, over and over, until the control connection ends."""
    control.settimeout(30)
    lines = control.makefile("rb")
    target = None
    control.sendall(b"220 ready\r\n")
    for line in lines:
        numbers = [int(it) for it in re.findall(rb"\d+", line)]
        if line.startswith(b"PORT"):
            target = (".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5])
        elif line.startswith(b"EPRT"):
            target = (".".join(map(str, numbers[1:5])), numbers[5])
        elif line.startswith(b"RETR") and target:
            try:
                with socket.create_connection(target, 1) as data:
                    data.sendall(FILE)
            except OSError:
                control.sendall(b"425 no connection\r\n")
                continue
            control.sendall(b"226 done\r\n")
            continue
        control.sendall(b"200 done\r\n")


def ftp_session(control):
    """The same. Whatever breaks ends it."""
    with control:
        try:
            ftp(control)
        except (OSError, ValueError, IndexError):
            pass


def ftp_server(address):
    """Serves each client in a thread."""
    listener = socket.create_server((address, 21), backlog=512)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=ftp_session, args=(client,), daemon=True).start()


def echo(address, port):
    """Returns what comes: datagrams and what connections bring."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    datagrams.bind((address, port))
    datagrams.setblocking(False)
    listener = socket.create_server((address, port), backlog=1024)
    listener.setblocking(False)
    ready = selectors.DefaultSelector()
    ready.register(datagrams, selectors.EVENT_READ)
    ready.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in ready.select():
            it = key.fileobj
            try:
                if it is datagrams:
                    for _ in range(256):
                        data, sender = it.recvfrom(2048)
                        it.sendto(data, sender)
                elif it is listener:
                    client, _ = it.accept()
                    client.setblocking(False)
                    ready.register(client, selectors.EVENT_READ)
                else:
                    data = it.recv(4096)
                    if data:
                        it.send(data)
                    else:
                        ready.unregister(it)
                        it.close()
            except BlockingIOError:
                pass
            except OSError:
                # An ICMP error about a datagram belongs to no connection.
                if it not in (datagrams, listener):
                    ready.unregister(it)
                    it.close()


threading.Thread(target=ftp_server, args=(sys.argv[1],), daemon=True).start()
echo(sys.argv[1], int(sys.argv[2]))
