"""A device plugin on grpcio, with messages written byte by byte: it shares no code with what it tests.

    plugin.py DIRECTORY RESOURCE VERSION DEVICE...

A device is ID:HEALTH:NODE. Every line on the input is a new list of devices, or one of these:

    fail           from now on Allocate fails
    work           it works again
    flood N LIST   N lists that change nothing but the health of all devices, then LIST

It registers again whenever the kubelet's socket is another file. It prints every call that it gets.
"""

import os
import queue
import sys
import threading
import time
from concurrent import futures

import grpc


def number(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def block(field, content):
    content = content.encode() if isinstance(content, str) else content
    return number(field << 3 | 2) + number(len(content)) + content


def pairs(field, values):
    return b"".join(block(field, block(1, key) + block(2, value)) for key, value in values.items())


def read_number(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = read_number(data, at)
        value, at = read_number(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        yield key >> 3, value


def texts(data, field):
    return sorted(value.decode() for found, value in fields(data) if found == field)


def device(text):
    name, health, node = text.split(":")
    topology = block(1, b"\x08" + number(int(node)))
    return block(1, name) + block(2, health) + block(3, topology)


def say(*words):
    print(*words, flush=True)


directory, resource, version = sys.argv[1:4]
endpoint = "python.sock"
folder = os.environ.get("PLUGIN_FOLDER", "/opt/plugin")
names_cdi = os.environ.get("PLUGIN_CDI") != "no"
current = sys.argv[4:]
watchers = []
lock = threading.Lock()
is_failing = threading.Event()


def options(_, __):
    return b"\x08\x01\x10\x01"


def watch(_, context):
    lists = queue.Queue()
    with lock:
        watchers.append(lists)
        lists.put(current)
    while context.is_active():
        try:
            yield b"".join(block(1, device(text)) for text in lists.get(timeout=0.2))
        except queue.Empty:
            pass


def advise(request, _):
    ask = dict(fields(request))[1]
    size = dict(fields(ask)).get(3, 0)
    say("advise", size, ",".join(texts(ask, 1)), ",".join(texts(ask, 2)))
    must = texts(ask, 2)
    others = [name for name in texts(ask, 1) if name not in must]
    missing = max(size - len(must), 0)
    chosen = must + others[len(others) - missing :]
    return block(1, b"".join(block(1, name) for name in chosen))


def allocate(request, context):
    names = texts(dict(fields(request))[1], 1)
    say("allocate", ",".join(names))
    if is_failing.is_set():
        context.abort(grpc.StatusCode.INTERNAL, "out of order")
    answer = pairs(1, {"PLUGIN_DEVICES": ",".join(names)})
    answer += block(2, block(1, "/usr/lib/plugin") + block(2, folder) + b"\x18\x01")
    answer += block(3, block(1, "/dev/plugin0") + block(2, "/dev/null") + block(3, "rw"))
    answer += pairs(4, {"example.com/devices": str(len(names))})
    if names_cdi:
        answer += b"".join(block(5, block(1, "example.com/gpu=" + name)) for name in names)
    return block(1, answer)


def prepare(request, _):
    say("start", ",".join(texts(request, 1)))
    return b""


def register():
    request = block(1, version) + block(2, endpoint) + block(3, resource)
    socket = "unix:" + os.path.join(directory, "kubelet.sock")
    # grpcio names the percent-encoded path of the socket as the authority.
    with grpc.insecure_channel(socket) as channel:
        call = channel.unary_unary("/v1beta1.Registration/Register")
        call(request, timeout=10, wait_for_ready=True)


def send_list(devices):
    global current
    with lock:
        current = devices
        for lists in watchers:
            lists.put(current)


def follow_input():
    for line in sys.stdin:
        words = line.split()
        if words == ["fail"]:
            is_failing.set()
        elif words == ["work"]:
            is_failing.clear()
        elif words[:1] == ["flood"]:
            devices = words[2:]
            for number in range(int(words[1])):
                health = ":Healthy:" if number % 2 else ":Unhealthy:"
                send_list([device.replace(":Healthy:", health) for device in devices])
            send_list(devices)
        else:
            send_list(words)
            continue
        say("done", words[0])


def file_of(path):
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino, found.st_ctime_ns
    except FileNotFoundError:
        return None


def serve():
    path = os.path.join(directory, endpoint)
    if os.path.exists(path):
        os.remove(path)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    handlers = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(options),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(watch),
        "GetPreferredAllocation": grpc.unary_unary_rpc_method_handler(advise),
        "Allocate": grpc.unary_unary_rpc_method_handler(allocate),
        "PreStartContainer": grpc.unary_unary_rpc_method_handler(prepare),
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),)
    )
    server.add_insecure_port("unix:" + path)
    server.start()
    return server


server = serve()
threading.Thread(target=follow_input, daemon=True).start()
seen = None
while True:
    found = file_of(os.path.join(directory, "kubelet.sock"))
    if found is not None and found != seen:
        seen = found
        if not os.path.exists(os.path.join(directory, endpoint)):
            # A kubelet that starts removes old sockets.
            server.stop(0).wait()
            server = serve()
        try:
            register()
            say("registered")
        except grpc.RpcError as error:
            say("rejected", error.code().name, error.details())
    time.sleep(0.05)
