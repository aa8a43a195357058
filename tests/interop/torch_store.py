# SPDX-License-Identifier: Apache-2.0
"""The other side of torch_store_test.c: PyTorch's TCPStore as client of a Tessera server, then as
server of Tessera clients.  Exit status 77: PyTorch is not installed."""
import sys
import threading
from datetime import timedelta

try:
    from torch.distributed import DistStoreError, TCPStore
except ImportError as error:
    print(error, flush=True)
    sys.exit(77)


def fails(call, word):
    try:
        call()
    except (DistStoreError, RuntimeError) as error:
        assert word in str(error), f"{word!r} is not in {error}"
        return
    raise AssertionError(f"no error with {word!r}")


def seconds(n):
    return timedelta(seconds=n)


def check_values(store):
    store.set("py/text", "from python")
    store.set("py/bytes", bytes(range(256)))
    store.set("py/empty", b"")
    assert store.get("py/text") == b"from python"
    assert store.get("py/bytes") == bytes(range(256))
    assert store.get("py/empty") == b""
    assert store.get("c/bytes") == b"a\0b\xff"
    assert store.add("py/n", 1) == 1 and store.add("py/n", 6) == 7
    assert store.get("py/n") == b"7"
    assert store.compare_set("py/c", "wrong", "x") == b"wrong"
    assert store.compare_set("py/c", "", "one") == b"one"
    assert store.compare_set("py/c", "one", "two") == b"two"
    assert store.compare_set("py/c", "one", "three") == b"two"
    assert store.check(["py/n", "py/c"]) and not store.check(["py/n", "absent"])
    assert store.delete_key("py/c") and not store.delete_key("py/c")
    store.append("py/a", "po")
    store.append("py/a", "tato")
    store.multi_set(["py/m1", "py/m2"], ["one", "two"])
    assert store.multi_get(["py/a", "py/m1", "py/m2"]) == [b"potato", b"one", b"two"]
    store.set("py/large", b"x" * (7 << 20))
    assert store.get("py/large") == b"x" * (7 << 20)


def check_waits(store):
    before = store.num_keys()
    fails(lambda: store.wait(["py/n", "absent"], timedelta(milliseconds=60)), "absent")
    assert store.num_keys() == before  # the same connection goes on
    threading.Timer(0.05, lambda: store.clone().set("py/late", "1")).start()
    store.wait(["py/n", "py/late"], seconds(5))


def check_newer_commands(store):
    if hasattr(store, "queue_push"):
        store.queue_push("py/q", "first")
        store.queue_push("py/q", "second")
        assert store.queue_len("py/q") == 2
        assert store.queue_pop("py/q") == b"first" and store.queue_pop("py/q") == b"second"
        fails(lambda: store.queue_pop("py/q", block=False), "empty")
        threading.Timer(0.05, lambda: store.clone().queue_push("py/q", "third")).start()
        assert store.queue_pop("py/q") == b"third"
    if hasattr(store, "list_keys"):
        keys = store.list_keys()
        assert "py/n" in keys and "c/bytes" in keys and "init/" not in keys, keys
    if hasattr(store, "barrier"):
        other = store.clone()
        thread = threading.Thread(target=lambda: other.barrier("py/b", 2, seconds(5)))
        thread.start()
        store.barrier("py/b", 2, seconds(5))
        thread.join()
        fails(lambda: store.barrier("py/b2", 2, timedelta(milliseconds=50)), "")
        assert store.get("py/n") == b"7"


def serve(use_libuv):
    return TCPStore("127.0.0.1", 0, 1, True, seconds(20), use_libuv=use_libuv)


def main():
    port = int(sys.argv[1])
    print("ready", flush=True)
    store = TCPStore("127.0.0.1", port, 2, False, seconds(20))
    check_values(store)
    check_waits(store)
    check_newer_commands(store)
    fails(lambda: store.clone().add("py/text", 1), "")
    assert store.get("py/text") == b"from python"
    servers = [serve(True), serve(False)]
    print(*(server.port for server in servers), flush=True)
    for server in servers:
        server.set_timeout(seconds(10))
        assert server.get("c/done") == b"\0done"
        assert server.get("init/") == b"x"  # a user's key, not the internal one
    fails(lambda: TCPStore("127.0.0.1", int(sys.argv[2]), None, False, seconds(1)), "")  # it has a secret
    print("good", flush=True)
    sys.stdin.read()  # the servers stay until the test has finished


main()
