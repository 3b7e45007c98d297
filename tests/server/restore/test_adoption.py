"""A Jupyter server that ends, however it does, leaves its kernels on their nodes, and the next one gives them back."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from jupyter_client.blocking import BlockingKernelClient
from tiers import mostly_nightly
from warm_python import run_warm

from jupyter_tpu.cloud import CloudSettings, connect_cloud
from jupyter_tpu.kernels.registry.notes import KernelRegistry
from jupyter_tpu.models import NodeName

if TYPE_CHECKING:
    from conftest import Cloud, OpenPages, Server, StartServer

pytestmark = pytest.mark.timeout(600)

ZONE = "us-central1-a"
NODE = {"zone": ZONE, "accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"}
PATIENCE = 3600

EndServer = Callable[["Server"], None]


@dataclass(frozen=True)
class Home:
    """A folder in which one server runs after the other, on a cloud with a READY node."""

    server: Server
    cloud: Cloud
    start: StartServer
    node_id: str
    started: list[Server] = field(default_factory=list)

    @property
    def node_name(self) -> str:
        return f"projects/{self.cloud.project}/locations/{ZONE}/nodes/{self.node_id}"

    @property
    def kernel_name(self) -> str:
        return f"tpu-{self.node_id}-{ZONE}"

    @property
    def notes(self) -> KernelRegistry:
        return KernelRegistry(self.server.folder / "tpu" / "kernels")

    def next_server(self, *options: str, **settings: Any) -> Server:
        server = self.start(*options, after=self.server, **settings, **self.cloud.variables)
        self.started.append(server)
        return server

    def do(self, action: str) -> None:
        """Have something done to the node, and wait until it is."""
        name = NodeName.parse(self.node_name)
        asyncio.run(perform(CloudSettings(project=name.project, endpoint=self.cloud.grpc), action, name))

    def tpu(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run `jupyter tpu …` beside the server."""
        folders = {"JUPYTER_DATA_DIR": "data", "JUPYTER_TPU_DATA_DIR": "tpu", "HOME": "."}
        environment = {name: str(self.server.folder / folder) for name, folder in folders.items()}
        command = [sys.executable, "-m", "jupyter_tpu.cli", *argv]
        variables = {**os.environ, **environment, **self.cloud.variables}
        return run_warm(command, env=variables, timeout=240)

    def end_kernels(self) -> None:
        """End those of servers that run, then those that nobody has."""
        for server in self.started:
            if server.process.poll() is None:
                end_kernels_of(server)
        if self.notes.list():
            end_kernels_of(self.next_server())

    def kernels_on_node(self) -> list[str]:
        """What the node's first worker keeps of kernels."""
        return [path.name for path in self._folder_on_node.iterdir()]

    def note_on_node(self, kernel_id: str) -> dict[str, Any]:
        """What the agent was told of the kernel."""
        return dict(json.loads((self._folder_on_node / kernel_id / "kernel.json").read_text())["note"])

    @property
    def _folder_on_node(self) -> Path:
        return Path(self.cloud.control.workers(self.node_name)[0]["home"]) / ".jupyter-tpu" / "kernels"


@pytest.fixture(scope="module")
def first_home(cloud: Cloud, start_lasting_server: StartServer) -> Server:
    """A folder with the kernelspec of a READY node; its server has ended."""
    server = start_lasting_server(**cloud.variables)
    make_node(server, "my-node")
    server.stop()
    return server


@pytest.fixture
def home(first_home: Server, cloud: Cloud, start_server: StartServer) -> Iterator[Home]:
    """A node that all tests share; no kernel and no note outlives a test."""
    at = Home(server=first_home, cloud=cloud, start=start_server, node_id="my-node")
    yield at
    at.end_kernels()
    assert at.notes.list() == ()


@pytest.fixture
def own_home(cloud: Cloud, start_server: StartServer) -> Home:
    """A node that the test may stop or delete."""
    node_id = f"own-node-{secrets.token_hex(3)}"
    server = start_server(**cloud.variables)
    make_node(server, node_id)
    server.stop()
    return Home(server=server, cloud=cloud, start=start_server, node_id=node_id)


async def perform(settings: CloudSettings, action: str, name: NodeName) -> None:
    cloud = await connect_cloud(settings)
    operation = await getattr(cloud, action)(name)
    while not operation.done:
        await asyncio.sleep(0.05)
        operation = await cloud.get_operation(operation.name)
    await cloud.aclose()


def end_kernels_of(server: Server) -> None:
    for kernel in server.request("GET", "api/kernels").json:
        server.request("DELETE", f"api/kernels/{kernel['id']}")


def make_node(server: Server, node_id: str, **fields: str) -> None:
    server.tpu("POST", "nodes", {**NODE, "node_id": node_id, **fields})
    until(lambda: kernelspec_of(server, node_id))


def kernelspec_of(server: Server, node_id: str) -> str | None:
    nodes = server.tpu("GET", "nodes").json["nodes"]
    return next((node["kernelspec"] for node in nodes if node["node_id"] == node_id), None)


def until(check: Callable[[], Any]) -> Any:
    """What `check` finds; asked over and over, because a REST API never calls."""
    for _ in range(PATIENCE):
        if found := check():
            return found
        signal.sigtimedwait([], 0.05)
    raise AssertionError("it did not happen")


def start_session(server: Server, home: Home, path: str = "work/train.ipynb", **fields: Any) -> dict[str, Any]:
    asked = {"path": path, "name": path.rpartition("/")[2], "type": "notebook", "kernel": {"name": home.kernel_name}}
    answer = server.request("POST", "api/sessions", {**asked, **fields})
    assert answer.status == 201, answer.text
    return dict(answer.json)


@contextmanager
def console(server: Server, kernel_id: str) -> Iterator[BlockingKernelClient]:
    """A client of the kernel's local sockets, as `jupyter console --existing`."""
    client = BlockingKernelClient(connection_file=str(server.folder / "runtime" / f"kernel-{kernel_id}.json"))
    client.load_connection_file()
    client.start_channels()
    try:
        yield client
    finally:
        client.stop_channels()


def value_of(server: Server, kernel_id: str, expression: str) -> str:
    """What the kernel computes."""
    with console(server, kernel_id) as client:
        asked = {"value": expression}
        reply = client.execute("", user_expressions=asked, silent=True, reply=True, timeout=120, stop_on_error=False)
    return str(reply["content"]["user_expressions"]["value"]["data"]["text/plain"])


def run(server: Server, kernel_id: str, code: str) -> None:
    with console(server, kernel_id) as client:
        reply = client.execute(code, reply=True, timeout=120, stop_on_error=False)
    assert reply["content"]["status"] == "ok", reply


def begin(server: Server, kernel_id: str, code: str) -> None:
    """Run a cell that takes its time."""
    with console(server, kernel_id) as client:
        msg_id = client.execute(code, stop_on_error=False)
        # the state may still be the "busy" of an earlier cell, and closing the client now would drop the request
        until(lambda: msg_id in requests_of(server, kernel_id))
        until(lambda: state_of(server, kernel_id) == "busy")


def requests_of(server: Server, kernel_id: str) -> list[str]:
    """The ids of all requests that have arrived on the node."""
    return [each["msg_id"] for each in server.tpu("GET", f"kernels/{kernel_id}/outputs").json["requests"]]


def state_of(server: Server, kernel_id: str) -> str:
    return str(server.request("GET", f"api/kernels/{kernel_id}").json["execution_state"])


def reply_to(client: BlockingKernelClient, msg_id: str) -> dict[str, Any]:
    while (reply := client.get_shell_msg(timeout=120))["parent_header"]["msg_id"] != msg_id:
        pass
    return dict(reply["content"])


def pid_of(server: Server, kernel_id: str) -> int:
    return int(value_of(server, kernel_id, "__import__('os').getpid()"))


def reason_of(server: Server, kernel_id: str) -> str:
    """Why the kernel is dead, once it is."""
    until(lambda: state_of(server, kernel_id) == "dead")
    return str(server.request("GET", f"api/kernels/{kernel_id}").json["reason"])


def last_outputs(server: Server, kernel_id: str) -> str:
    """What the kernel's last cell has put out, as JSON."""
    return json.dumps(server.tpu("GET", f"kernels/{kernel_id}/outputs").json["requests"][-1]["outputs"])


def cell_that_waits_for(path: Path) -> str:
    return f"import pathlib, time\nwhile not pathlib.Path({str(path)!r}).exists():\n    time.sleep(0.05)"


def without_kernel_state(sessions: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["id"], each["path"], each["name"], each["type"], each["kernel"]["id"]) for each in sessions]


def end_by(number: int) -> EndServer:
    def end(server: Server) -> None:
        server.process.send_signal(number)
        server.process.wait(timeout=120)

    return end


@pytest.mark.parametrize("number", mostly_nightly([signal.SIGTERM, signal.SIGKILL, signal.SIGINT], count=1))
def test_a_server_gives_back_the_busy_kernel_of_one_that_ended(home: Home, tmp_path: Path, number: int) -> None:
    first = home.next_server("--ServerApp.answer_yes=True")
    session = start_session(first, home)
    kernel_id = session["kernel"]["id"]
    run(first, kernel_id, "import os; x = 41")
    pid = value_of(first, kernel_id, "os.getpid()")
    begin(first, kernel_id, cell_that_waits_for(tmp_path / "go"))

    end_by(number)(first)
    second = home.next_server()

    sessions = second.request("GET", "api/sessions").json
    assert without_kernel_state(sessions) == without_kernel_state([session])
    assert [kernel["id"] for kernel in second.request("GET", "api/kernels").json] == [kernel_id]
    until(lambda: state_of(second, kernel_id) == "busy")
    (tmp_path / "go").touch()
    until(lambda: state_of(second, kernel_id) == "idle")
    assert (value_of(second, kernel_id, "x"), value_of(second, kernel_id, "os.getpid()")) == ("41", pid)


@pytest.fixture
def given_back(home: Home) -> tuple[Server, dict[str, Any]]:
    """A server that has the session of one that was killed."""
    first = home.next_server()
    session = start_session(first, home)
    first.kill()
    return home.next_server(), session


@pytest.mark.nightly
def test_a_kernel_that_was_given_back_is_interrupted_restarted_and_ended(
    home: Home, given_back: tuple[Server, dict[str, Any]], tmp_path: Path
) -> None:
    server, session = given_back
    kernel_id = session["kernel"]["id"]
    pid = value_of(server, kernel_id, "__import__('os').getpid()")
    with console(server, kernel_id) as client:
        begun = tmp_path / "begun"
        cell = client.execute(f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(600)")
        until(begun.exists)
        assert server.request("POST", f"api/kernels/{kernel_id}/interrupt").status == 204
        assert reply_to(client, cell)["ename"] == "KeyboardInterrupt"

    assert server.request("POST", f"api/kernels/{kernel_id}/restart").status == 200
    assert value_of(server, kernel_id, "__import__('os').getpid()") != pid

    assert server.request("DELETE", f"api/sessions/{session['id']}").status == 204
    assert server.request("GET", "api/kernels").json == []
    assert home.kernels_on_node() == []
    assert home.notes.list() == ()


@pytest.mark.nightly
def test_all_that_front_ends_have_open_is_given_back(home: Home) -> None:
    first = home.next_server()
    notebook = start_session(first, home, "old name.ipynb")
    kernel = {"id": notebook["kernel"]["id"]}
    start_session(first, home, "old name.ipynb-jvsc-7", type="console", kernel=kernel)
    renamed = {"path": "sub folder/new ü name.ipynb", "name": "new ü name.ipynb"}
    assert first.request("PATCH", f"api/sessions/{notebook['id']}", renamed).status == 200
    bare = first.request("POST", "api/kernels", {"name": home.kernel_name}).json
    expected = without_kernel_state(first.request("GET", "api/sessions").json)

    first.kill()
    second = home.next_server()

    assert without_kernel_state(second.request("GET", "api/sessions").json) == expected
    assert {each["id"] for each in second.request("GET", "api/kernels").json} == {kernel["id"], bare["id"]}
    assert value_of(second, bare["id"], "6 * 7") == "42"
    assert renamed["path"] in [each["path"] for each in home.note_on_node(kernel["id"])["sessions"]]


@pytest.mark.nightly
def test_a_server_leaves_the_kernels_of_one_that_runs(home: Home) -> None:
    first = home.next_server()
    session = start_session(first, home)

    second = home.next_server()

    assert second.request("GET", "api/kernels").json == []
    assert second.request("GET", "api/sessions").json == []
    asked = {"name": home.kernel_name, "id": session["kernel"]["id"]}
    refused = second.request("POST", "api/sessions", {"path": "x", "type": "notebook", "kernel": asked})
    assert (refused.status, "another Jupyter server" in refused.text) == (409, True)
    second.stop()
    assert value_of(first, session["kernel"]["id"], "6 * 7") == "42"


@pytest.mark.nightly
def test_a_server_of_another_folder_leaves_the_kernels_alone(home: Home, tmp_path: Path) -> None:
    first = home.next_server()
    session = start_session(first, home)
    first.kill()

    second = home.next_server(f"--ServerApp.root_dir={tmp_path}")

    assert second.request("GET", "api/kernels").json == []
    assert [note.kernel_id for note in home.notes.list()] == [session["kernel"]["id"]]


def test_a_kernel_whose_node_cannot_be_reached_is_given_back_and_comes_alive_later(home: Home) -> None:
    first = home.next_server()
    session = start_session(first, home)
    kernel_id = session["kernel"]["id"]
    run(first, kernel_id, "x = 41")
    first.kill()
    home.cloud.control.close_ssh(home.node_name)

    second = home.next_server()
    found = second.request("GET", "api/sessions").json
    home.cloud.control.open_ssh(home.node_name)

    assert without_kernel_state(found) == without_kernel_state([session])
    assert found[0]["kernel"]["execution_state"] == "unknown"
    assert value_of(second, kernel_id, "x") == "41"
    until(lambda: state_of(second, kernel_id) == "idle")


@pytest.mark.parametrize(
    ("end", "words"),
    mostly_nightly(
        [(lambda pid: os.kill(pid, signal.SIGKILL), "SIGKILL"), (lambda pid: os.kill(pid, signal.SIGUSR2), "SIGUSR2")],
        count=1,
    ),
    ids=["SIGKILL", "SIGUSR2"],
)
async def test_a_kernel_that_ended_while_no_server_ran_is_dead_with_the_reason_and_can_be_restarted(
    home: Home, open_page: OpenPages, end: Callable[[int], None], words: str
) -> None:
    first = home.next_server()
    kernel_id = start_session(first, home)["kernel"]["id"]
    pid = pid_of(first, kernel_id)
    first.kill()
    end(pid)
    until(lambda: not psutil.pid_exists(pid))

    second = home.next_server()

    assert words in reason_of(second, kernel_id)
    assert words in second.log()
    assert len(second.request("GET", "api/sessions").json) == 1
    page = await open_page(second, kernel_id)
    for _ in range(2):
        await page.until_idle(page.execute("'never'"))
    replies = [message["content"] for message in page.heard if message["msg_type"] == "execute_reply"]
    assert [reply["status"] for reply in replies] == ["error", "error"]
    assert all(words in "\n".join(reply["traceback"]) for reply in replies)
    assert second.request("POST", f"api/kernels/{kernel_id}/restart").status == 200
    msg_id = page.execute("print('again')")
    await page.until_idle(msg_id)
    assert page.text(msg_id) == "again\n"
    assert pid_of(second, kernel_id) != pid
    assert [note.kernel_id for note in home.notes.list()] == [kernel_id]


@pytest.mark.nightly
@pytest.mark.parametrize("action", mostly_nightly(["stop_node", "delete_node"], count=1))
def test_a_kernel_whose_node_is_gone_is_dead_and_its_note_goes(own_home: Home, action: str) -> None:
    first = own_home.next_server()
    kernel_id = start_session(first, own_home)["kernel"]["id"]
    first.kill()
    own_home.do(action)

    second = own_home.next_server()

    assert own_home.node_id in reason_of(second, kernel_id)
    until(lambda: own_home.notes.list() == ())
    assert "is gone; its note was removed" in second.log()


@pytest.mark.nightly
def test_a_kernel_that_somebody_else_has_ended_is_not_started_again(home: Home) -> None:
    server = home.next_server()
    kernel_id = start_session(server, home)["kernel"]["id"]
    pid = pid_of(server, kernel_id)

    ended = home.tpu("kernels", "end", kernel_id, "--yes")

    assert ended.returncode == 0, ended.stderr
    until(lambda: server.request("GET", "api/kernels").json == [])
    assert not psutil.pid_exists(pid)
    assert home.kernels_on_node() == []
    assert home.notes.list() == ()


@pytest.mark.nightly
def test_kernels_end_with_a_server_that_is_to_keep_none(home: Home) -> None:
    server = home.next_server(traits={"keep_kernels": False})
    start_session(server, home)

    server.stop()

    assert home.kernels_on_node() == []
    assert home.notes.list() == ()


@pytest.mark.nightly
def test_a_kernel_that_cannot_be_noted_runs_and_ends_with_its_server(home: Home) -> None:
    server = home.next_server()
    kernel_id = "00000000-0000-4000-8000-000000000000"
    in_the_way = home.notes.folder / f"{kernel_id}.json" / "folder"
    in_the_way.mkdir(parents=True)

    start_session(server, home, kernel={"name": home.kernel_name, "id": kernel_id})
    assert value_of(server, kernel_id, "6 * 7") == "42"
    server.stop()

    assert f"The kernel {kernel_id} cannot be recorded" in server.log()
    assert home.kernels_on_node() == []
    in_the_way.rmdir()
    in_the_way.parent.rmdir()


@pytest.mark.nightly
def test_kernels_of_a_full_disk_are_found_once_it_has_room_and_listed_until_then(home: Home) -> None:
    first = home.next_server()
    found, lost = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))
    in_the_way = {kernel_id: home.notes.folder / f"{kernel_id}.json" for kernel_id in (found, lost)}
    for kernel_id, folder in in_the_way.items():
        (folder / "folder").mkdir(parents=True)
        kernel = {"name": home.kernel_name, "id": kernel_id}
        start_session(first, home, path=f"work/{kernel_id[-1]}.ipynb", kernel=kernel)
    run(first, found, "x = 41")

    shutil.rmtree(in_the_way[found])
    until(lambda: [each.path for note in home.notes.list() for each in note.sessions] == ["work/1.ipynb"])
    until(lambda: home.note_on_node(lost)["sessions"])
    first.kill()
    second = home.next_server()

    assert [kernel["id"] for kernel in second.request("GET", "api/kernels").json] == [found]
    assert value_of(second, found, "x + 1") == "42"
    listed = home.tpu("kernels", "--json")
    notebooks = {each["kernel_id"]: each["notebook"] for each in json.loads(listed.stdout)["kernels"]}
    assert notebooks == {found: "work/1.ipynb", lost: "work/2.ipynb"}
    shutil.rmtree(in_the_way[lost])
    assert home.tpu("kernels", "end", lost, "--yes").returncode == 0


@pytest.mark.nightly
def test_a_note_that_cannot_be_read_is_named_and_keeps_no_other_from_being_used(home: Home) -> None:
    first = home.next_server()
    kernel_id = start_session(first, home)["kernel"]["id"]
    first.kill()
    damaged = home.notes.folder / "damaged.json"
    damaged.write_text("{")

    second = home.next_server()

    assert [each["id"] for each in second.request("GET", "api/kernels").json] == [kernel_id]
    assert str(damaged) in second.log()
    damaged.unlink()


@pytest.mark.nightly
def test_activity_goes_on_counting_from_what_the_kernel_said_last(home: Home) -> None:
    first = home.next_server()
    kernel_id = start_session(first, home)["kernel"]["id"]
    run(first, kernel_id, "print('last words')")
    first.stop()
    # the agent's answer is taken to be as old as it was when it was sent: give it longer than it travels
    assert kernel_id in home.tpu("kernels", "--json").stdout
    ended_at = datetime.now(UTC)

    second = home.next_server()

    until(lambda: state_of(second, kernel_id) == "idle")
    model = second.request("GET", f"api/kernels/{kernel_id}").json
    assert datetime.fromisoformat(model["last_activity"]) < ended_at
    assert model["connections"] == 0


@pytest.mark.nightly
def test_a_kernel_that_was_ended_when_its_node_could_not_be_told_is_ended_later(home: Home) -> None:
    first = home.next_server()
    session = start_session(first, home)
    first.kill()
    home.cloud.control.close_ssh(home.node_name)
    second = home.next_server()
    ended = second.request("DELETE", f"api/sessions/{session['id']}").status
    second.kill()
    home.cloud.control.open_ssh(home.node_name)

    third = home.next_server()

    assert ended == 204
    assert third.request("GET", "api/kernels").json == []
    until(lambda: home.kernels_on_node() == [])
    until(lambda: home.notes.list() == ())


@pytest.mark.nightly
def test_an_idle_kernel_that_was_given_back_is_culled_once_it_is_known_to_be_idle(home: Home) -> None:
    first = home.next_server()
    kernel_id = start_session(first, home)["kernel"]["id"]
    run(first, kernel_id, "x = 41")
    first.kill()
    home.cloud.control.close_ssh(home.node_name)
    options = ("--MappingKernelManager.cull_idle_timeout=1", "--MappingKernelManager.cull_interval=1")

    second = home.next_server(*options)
    local = second.request("POST", "api/kernels", {"name": "python3"}).json["id"]
    until(lambda: second.request("GET", f"api/kernels/{local}").status == 404)
    unknown = second.request("GET", f"api/kernels/{kernel_id}").status
    home.cloud.control.open_ssh(home.node_name)

    assert unknown == 200
    until(lambda: second.request("GET", "api/kernels").json == [])
    until(lambda: home.kernels_on_node() == [])


@pytest.mark.nightly
async def test_what_a_kernel_has_said_can_be_read_when_it_has_ended_without_a_server(
    home: Home, open_page: OpenPages, tmp_path: Path
) -> None:
    first = home.next_server()
    kernel_id = start_session(first, home)["kernel"]["id"]
    pid = pid_of(first, kernel_id)
    waiting = cell_that_waits_for(tmp_path / "go")
    begin(first, kernel_id, f"print('last words')\n{waiting}\nimport os\nos._exit(7)")
    until(lambda: "last words" in last_outputs(first, kernel_id))
    first.kill()
    (tmp_path / "go").touch()
    until(lambda: not psutil.pid_exists(pid))

    second = home.next_server()

    assert "exit code 7" in reason_of(second, kernel_id)
    assert "last words" in last_outputs(second, kernel_id)
    page = await open_page(second, kernel_id)
    await page.until(lambda message: message["content"].get("execution_state") == "dead")


@pytest.mark.nightly
def test_a_kernel_on_four_workers_is_given_back_restarted_and_ended_on_all(
    start_server: StartServer, cloud: Cloud
) -> None:
    server = start_server(**cloud.variables)
    make_node(server, "four", accelerator_type="v5litepod-16")
    server.stop()
    home = Home(server=server, cloud=cloud, start=start_server, node_id="four")
    first = home.next_server()
    kernel_id = start_session(first, home)["kernel"]["id"]
    run(first, kernel_id, "import os; worker = os.environ['TPU_WORKER_ID']")

    first.kill()
    second = home.next_server()
    run(second, kernel_id, "print('I am number', worker)")
    shown = last_outputs(second, kernel_id)
    assert all(f"I am number {number}" in shown for number in range(4))

    assert second.request("POST", f"api/kernels/{kernel_id}/restart").status == 200
    run(second, kernel_id, "import os; print('again', os.environ['TPU_WORKER_ID'], 'worker' in globals())")
    shown = last_outputs(second, kernel_id)
    assert all(f"again {number} False" in shown for number in range(4))

    assert len(engines_of(home)) == 3
    assert second.request("DELETE", f"api/kernels/{kernel_id}").status == 204
    until(lambda: not engines_of(home))
    assert home.notes.list() == ()


def engines_of(home: Home) -> list[psutil.Process]:
    """The processes of kernels on the other workers of the node."""
    homes = tuple(worker["home"] for worker in home.cloud.control.workers(home.node_name))
    lines = {process: process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])}
    return [each for each, line in lines.items() if "--engine" in line and any(word.startswith(homes) for word in line)]
