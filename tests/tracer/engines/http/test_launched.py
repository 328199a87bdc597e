"""Servers of our own as processes: started, explained when they die, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracer.engines.http.launched import LaunchedServer, free_port
from tracer.errors import EngineMissing

SERVER = """
import http.server, sys
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *args): pass
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
"""


def command(port: int, code: str = SERVER) -> list[str]:
    return [sys.executable, "-P", "-c", code, str(port)]


def start(code: str = SERVER, wait_s: float = 120.0) -> LaunchedServer:
    port = free_port()
    return LaunchedServer(port, command(port, code), environment=os.environ, start_timeout_s=wait_s)


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_started_and_stopped() -> None:
    server = start()
    assert server.alive
    assert "listening" in server.lines
    server.stop()
    server.stop()
    assert not server.alive


def test_a_death_is_explained() -> None:
    server = start()
    os.kill(server._process.pid, signal.SIGABRT)
    assert server.wait_for_death(60)
    assert server.death().startswith("signal SIGABRT")
    server.stop()


def test_one_that_never_gets_ready_says_why() -> None:
    with pytest.raises(EngineMissing, match="error: no such option"):
        start("import sys; print('error: no such option'); sys.exit(3)")
    with pytest.raises(EngineMissing, match="not ready within"):
        start("import time; time.sleep(60)", wait_s=0.3)
    with pytest.raises(EngineMissing, match="cannot be started"):
        LaunchedServer(1, ["/no/such/program"], environment={}, start_timeout_s=1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the Linux kernel")
def test_a_killed_recorder_leaves_no_server_behind() -> None:
    recorder = (
        "import os, sys\n"
        "from tracer.engines.http.launched import LaunchedServer\n"
        f"server = LaunchedServer(int(sys.argv[1]), {command(0)[:-1]!r} + [sys.argv[1]], "
        "environment=os.environ, start_timeout_s=20)\n"
        "print(server._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", recorder, str(free_port())],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout))
