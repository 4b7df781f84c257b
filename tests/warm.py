"""Start commands and scripts from a process that has imported what they need.

A fresh interpreter spends half a second on imports, several times what most commands do. Here one process imports once
and forks for each of them. A fork has memory, streams, signals and an exit code of its own, as any process does. What
it does not show is the start of the interpreter: its options, its imports and what they read from the environment.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading

READ_AT_START = ("PYTHON", "NUMBA", "OMP_", "OPENBLAS", "MKL_", "LC_", "LANG")
MODULES = ("rafm.train", "rafm.predictor", "rafm.encode.encoder", "rafm.read.csv.plain_parser", "pyarrow")
PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL


def start_python(*arguments, environment=None, **settings):
    """Start `python *arguments`: as a fork, unless options, variables or settings ask for more than a fork can do."""
    added = environment or {}
    is_usual = arguments[0] in ("-m", "-c") and not any(name.startswith(READ_AT_START) for name in added)
    if is_usual and sys.platform == "linux" and settings.keys() <= {"stdin", "stdout", "stderr", "cwd", "text"}:
        return Fork(arguments, {**os.environ, **added}, **settings)
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env={**os.environ, **paths, **added}, **settings)


def run_script(script, *arguments, stdin=None, text=True):
    """Run a Python script with everything imported, to its end; return what subprocess.run would."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), PIPE)
    with start_python("-c", script, *arguments, text=text, **streams) as process:
        printed = process.communicate(stdin, timeout=600)
    return subprocess.CompletedProcess(process.args, process.returncode, *printed)


class Fork:
    """A process with the attributes and methods of Popen."""

    def __init__(self, arguments, environment, stdin=None, stdout=None, stderr=None, cwd=".", text=False):
        self.args, self.returncode = [*map(str, arguments)], None
        self.status, theirs = socket.socketpair()
        ours, streams = zip(*(open_stream(*each, text) for each in enumerate((stdin, stdout, stderr))))
        self.stdin, self.stdout, self.stderr = ours
        request = json.dumps([self.args, os.path.abspath(cwd), environment]).encode()
        socket.send_fds(starter(), [request], [*streams, theirs.fileno()])
        theirs.close()
        for number, stream in enumerate(streams):
            if stream != number:
                os.close(stream)
        self.pid = self.told()

    def told(self):
        """Return the next number that the starter tells: the id of the process, then how it ended."""
        return int.from_bytes(self.status.recv(4), "little")

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self.status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = os.waitstatus_to_exitcode(self.told())
            self.status.close()
        return self.returncode

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, stdin=None, timeout=None):
        """Write and read at the same time, as a full pipe would stop the process."""
        found = {}

        def read(file):
            with file:
                found[file] = file.read()

        files = [file for file in (self.stdout, self.stderr) if file and not file.closed]
        threads = [threading.Thread(target=read, args=(file,), daemon=True) for file in files]
        [thread.start() for thread in threads]
        if self.stdin and not self.stdin.closed:
            with contextlib.suppress(BrokenPipeError), self.stdin:
                if stdin is not None:
                    self.stdin.write(stdin)
        self.wait(timeout)
        [thread.join() for thread in threads]
        return found.get(self.stdout), found.get(self.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait()
        for file in (self.stdin, self.stdout, self.stderr):
            if file:
                file.close()


def open_stream(number, wanted, text):
    """Return our end of a stream, or None, and the descriptor of the process's end."""
    if wanted is None:
        return None, number
    if wanted == DEVNULL:
        return None, os.open(os.devnull, os.O_RDWR)
    if wanted == PIPE:
        ends = os.pipe()
        ours, theirs = ends if number else ends[::-1]
        return open(ours, ("r" if number else "w") + ("" if text else "b")), theirs
    return None, os.dup(wanted if isinstance(wanted, int) else wanted.fileno())


@functools.cache
def starter():
    """Return a connection to the process that forks; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    paths = os.pathsep.join(path for path in sys.path if path)
    command, environment = [sys.executable, __file__, str(theirs.fileno())], {**os.environ, "PYTHONPATH": paths}
    process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdin=DEVNULL, stdout=DEVNULL)
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


# In the process that forks


def wait_for_a_request(control):
    """Fork for every request, and tell how each fork ends; return the request in the fork."""
    ended, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running = {}
    while True:
        ready, _, _ = select.select([control, ended], [], [])
        if ended in ready:
            ended.recv(4096)
            while running and (found := os.waitpid(-1, os.WNOHANG))[0]:
                running.pop(found[0]).send(found[1].to_bytes(4, "little"))
        if control in ready:
            request, streams, *_ = socket.recv_fds(control, 1 << 20, 4)
            if not request:
                sys.exit()
            status = socket.socket(fileno=streams.pop())
            pid = os.fork()
            if pid == 0:
                take_over(streams, (control, ended, waker, status, *running.values()))
                return json.loads(request)
            running[pid] = status
            status.send(pid.to_bytes(4, "little"))
            for stream in streams:
                os.close(stream)


def take_over(streams, sockets):
    """Leave what belongs to the process that forks, and take the streams of the command."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for one in sockets:
        one.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)


if __name__ == "__main__":
    for name in MODULES:
        importlib.import_module(name)
    commands = importlib.import_module("commands")
    commands.run("predict", "no model", "no rows")  # imports and builds what every command needs
    gc.freeze()
    (kind, what, *arguments), folder, environment = wait_for_a_request(socket.socket(fileno=int(sys.argv[1])))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
