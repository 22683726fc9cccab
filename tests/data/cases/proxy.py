#!/usr/bin/env python3
"""A forward proxy on loopback (CONNECT and absolute URIs), that prints each request: python3 proxy.py 13128"""
import socket, sys, threading
from urllib.parse import urlsplit
def pipe(a, b):
    try:
        while (d := a.recv(65536)): b.sendall(d)
    except OSError: pass
    finally:
        for s in (a, b):
            try: s.shutdown(socket.SHUT_RDWR)
            except OSError: pass
def serve(c):
    head = b""
    while b"\r\n\r\n" not in head:
        d = c.recv(65536)
        if not d: return
        head += d
    line = head.split(b"\r\n", 1)[0].decode(); print(line, flush=True)
    method, target, _ = line.split(" ", 2)
    if method == "CONNECT": host, port, rest = *target.rsplit(":", 1), b""
    else:
        u = urlsplit(target); host, port = u.hostname, u.port or 80
        rest = head.replace(target.encode(), (u.path + ("?" + u.query if u.query else "")).encode(), 1)
    try: s = socket.create_connection((host, int(port)), 10)
    except OSError: return c.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
    if method == "CONNECT": c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    else: s.sendall(rest)
    threading.Thread(target=pipe, args=(c, s), daemon=True).start(); pipe(s, c)
l = socket.create_server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 13128))
print("listening on", l.getsockname()[1], flush=True)
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
