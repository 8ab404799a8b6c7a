"""An SFTP server behind a relay that counts requests.

With a file `hold` in its folder, the first reply waits for the number of requests in that file; the number received by then is written
to `before`. With a file `die` in its folder, it ends after 20 requests and removes the file.
"""

import contextlib
import os
import struct
import subprocess
import sys
import threading
import time

folder, server = sys.argv[1:]
child = subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
received = 0
with open(os.path.join(folder, f"pid.{os.getpid()}"), "w"):
    pass


def packet(stream):
    head = stream.read(4)
    return head + stream.read(struct.unpack(">I", head)[0]) if len(head) == 4 else b""


def requests():
    global received
    source = os.fdopen(0, "rb", buffering=65536)
    while data := packet(source):
        received += 1
        die_file = os.path.join(folder, "die")
        if received == 20 and os.path.exists(die_file):
            os.unlink(die_file)
            child.kill()
            os._exit(1)
        child.stdin.write(data)
        child.stdin.flush()
    child.stdin.close()


threading.Thread(target=requests, daemon=True).start()
out = os.fdopen(1, "wb", buffering=0)
out.write(packet(child.stdout))
first = packet(child.stdout)
with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, "hold")) as file:
    enough = int(file.read())
    # The greeting is not a request.
    while received - 1 < enough:
        time.sleep(0.01)
    with open(os.path.join(folder, "before"), "w") as file:
        file.write(str(received - 1))
while first:
    out.write(first)
    first = packet(child.stdout)
