"""The server extension: its traits, routes and events, and a fleet that starts in the background.

A Jupyter server must start as fast and reliably as without this extension, so nothing here waits for the cloud.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jupyter_events import EventLogger
from jupyter_server.extension.application import ExtensionApp
from tornado.ioloop import IOLoop
from tornado.web import HTTPError
from traitlets import Bool, Float, Unicode

from jupyter_tpu import __version__
from jupyter_tpu.cloud.settings import TRUST_VARIABLE, CloudSettings, settings_from_environment
from jupyter_tpu.errors import TpuError
from jupyter_tpu.fleet import FleetChange
from jupyter_tpu.fleet.reconciler.views import error_view
from jupyter_tpu.journal.saved_choices import apply_saved_choices
from jupyter_tpu.kernels.connections.metrics_pool import MetricsPool
from jupyter_tpu.kernels.connections.node_files import NodeFilesPool
from jupyter_tpu.kernels.launch import LANGUAGE_SETTING
from jupyter_tpu.kernels.progress import keep_tracebacks_out
from jupyter_tpu.lifecycle.time_limits import Limits
from jupyter_tpu.server.events import FLEET_EVENT, SCHEMA_FILES
from jupyter_tpu.server.files.drive_routes import DRIVE_ROUTES
from jupyter_tpu.server.kernel_changes import KERNEL_CHANGE_ROUTES
from jupyter_tpu.server.kernelspec_sync import KernelspecSync
from jupyter_tpu.server.lazy_fleet import LazyFleet
from jupyter_tpu.server.ports.tunnels import PortTunnels
from jupyter_tpu.server.restore.adoption import Adoption
from jupyter_tpu.server.routes.ports import PORT_PAGES
from jupyter_tpu.server.routes.table import OLD_ROUTES, ROUTES
from jupyter_tpu.server.routes.widget_scripts import widget_script_routes
from jupyter_tpu.server.served_cloud import NodeAccess, ServedCloud
from jupyter_tpu.server.trial_switch import TrialSwitch
from jupyter_tpu.server.websocket.control_requests import exclude_control_requests
from jupyter_tpu.server.websocket.kernel_socket import install_kernel_socket
from jupyter_tpu.server.websocket.terminal_socket import TERMINAL_SOCKET_ROUTES
from jupyter_tpu.setup.trial import clean_up_trial
from jupyter_tpu.ssh import import_ahead

if TYPE_CHECKING:
    from jupyter_tpu.setup.engine import SetupEngine


class TPUApp(ExtensionApp):
    """Cloud TPU nodes in Jupyter: list, create, stop and delete nodes, with a kernelspec for each READY node."""

    name = "jupyter_tpu"
    app_name = "Jupyter on Cloud TPU"
    description = __doc__
    extension_url = "/lab"
    load_other_extensions = True

    project = Unicode(
        "",
        help="Google Cloud project of the nodes. Default: $JUPYTER_TPU_PROJECT, or the project of the "
        "Application Default Credentials.",
    ).tag(config=True)

    endpoint = Unicode(
        "",
        help="HOST:PORT of the Cloud TPU API's gRPC endpoint, for example the address of `jupyter tpu "
        "emulator`. Default: $JUPYTER_TPU_ENDPOINT, or Google Cloud.",
    ).tag(config=True)

    trust_endpoint = Unicode(
        "",
        help="The only host outside Google's domains that may receive your Google Cloud credentials, for an "
        "endpoint on that host. Also applies to kernels of this server. Default: "
        "$JUPYTER_TPU_TRUST_ENDPOINT, or none.",
    ).tag(config=True)

    ssh_user = Unicode(
        "",
        help="Login name on the TPU VMs. Nodes that you create here accept jupyter_tpu's SSH key for this login. "
        "Default: your login name on this machine.",
    ).tag(config=True)

    proxy_command = Unicode(
        "",
        help="Command whose standard input and output carry the SSH connection to a TPU VM, with ssh's %h, %p "
        "and %r (for example for Identity-Aware Proxy). The command is written into the kernelspecs. "
        "Default: connect directly, or as configured in ~/.ssh/config.",
    ).tag(config=True)

    write_kernelspecs = Bool(
        True,
        help="Whether to write a kernelspec for each READY node and remove it when the node is stopped or deleted.",
    ).tag(config=True)

    connect_ahead = Bool(
        True,
        help="Whether to connect to each READY node in advance, so that its first kernel starts at once. Costs some "
        "memory here and on the node.",
    ).tag(config=True)

    keep_kernels = Bool(
        True,
        help="Whether kernels on nodes keep running when this server stops; the next server in the same folder "
        "restores them. If False, they are shut down with the server, like kernels on this machine. Kernels of a "
        "killed server are restored in either case.",
    ).tag(config=True)

    billing_export = Unicode(
        "",
        help="PROJECT.DATASET.TABLE of the standard Cloud Billing export to BigQuery, used to show what Google"
        " has billed. Default: $JUPYTER_TPU_BILLING_EXPORT, or none.",
    ).tag(config=True)

    port_timeout = Float(
        60.0,
        help="Seconds to wait for the response of a program on a port of a node. After that, the browser shows that "
        "the program does not respond.",
    ).tag(config=True)

    unsure_s = Float(
        Limits().unsure_s,
        help="Seconds to wait for a requested node to appear in the cloud's list if the request got no "
        "response, because the list lags behind. After that, the request counts as failed.",
    ).tag(config=True)

    def initialize_settings(self) -> None:
        """Perform the setup that needs no event loop; called by the server while it loads extensions."""
        if self.trust_endpoint:
            # use an environment variable, because kernel launchers in other processes open connections too
            os.environ[TRUST_VARIABLE] = self.trust_endpoint
        for path in SCHEMA_FILES:
            self._event_logger.register_event_schema(path)
        install_kernel_socket(self.serverapp, self.settings)
        exclude_control_requests(self.settings["kernel_manager"])
        self.settings[LANGUAGE_SETTING] = partial(front_end_language, self.serverapp)
        keep_tracebacks_out(logging.getLogger("tornado.application"))  # POST /api/kernels logs a failed start here
        apply_saved_choices(os.environ)
        import_ahead()  # importing asyncssh takes most of a second, which would delay the first kernel
        self.own = ServedCloud(self.cloud_settings, self._access(), self._emit, self.log)
        self.trial = TrialSwitch(self._serve, self.settings["kernel_manager"], self.log)
        self.metrics_pool = MetricsPool()
        self.node_files = NodeFilesPool()
        self.port_tunnels = PortTunnels()
        self._is_trial_left = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.adoption = Adoption(self.serverapp, self.log)
        self.adoption.follow_sessions()

    def initialize_handlers(self) -> None:
        """Register the routes; called by the server after `initialize_settings`."""
        self.handlers.extend([*ROUTES, *OLD_ROUTES, *DRIVE_ROUTES, *PORT_PAGES, *TERMINAL_SOCKET_ROUTES])
        self.handlers.extend([*KERNEL_CHANGE_ROUTES, *widget_script_routes()])
        self._adopt_kernels()

    def _adopt_kernels(self) -> None:
        """Restore kernels before the server listens.

        Otherwise, a front end would find no kernels and would drop its sessions.
        """
        try:
            self._is_trial_left = clean_up_trial()
            notes = self.adoption.claim()
        except (OSError, TpuError) as error:
            self.log.warning("The kernels of an earlier server cannot be restored: %s", error)
            return
        if notes and _is_in_loop():  # started by a program with a running event loop, which must not be blocked
            self._in_background(self.adoption.adopt(notes))
        elif notes:
            IOLoop.current().run_sync(lambda: self.adoption.adopt(notes))

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:  # noqa: ARG002 - the server passes it
        """Start the fleet, which continues the work of an earlier server; called when the event loop is running."""
        self.own.start()
        self._in_background(self.own.warm_up())
        if self._is_trial_left and self.own.emulator is None:
            self.trial.resume()

    @property
    def shown(self) -> ServedCloud:
        """The cloud that the panel shows."""
        return self.trial.served or self.own

    @property
    def fleet(self) -> LazyFleet:
        """The fleet of the cloud that the panel shows."""
        return self.shown.fleet

    @property
    def kernelspecs(self) -> KernelspecSync:
        """The kernelspecs of the cloud that the panel shows."""
        return self.shown.kernelspecs

    def refresh_nodes(self) -> None:
        """List the nodes now, in the background, after a change."""
        self._in_background(self.shown.refresh())

    def cloud_changed(self) -> None:
        """Make front ends reload all data, because the cloud, the project or the account has changed."""
        self._emit(FleetChange(kind="cloud"))

    def setup_engine(self) -> SetupEngine:
        """Return the setup engine for the user's own cloud."""
        from jupyter_tpu.setup.engine import SetupEngine  # needed only until the project is set up

        return SetupEngine(self.own.settings_or_none(), os.environ, is_project_fixed=bool(self.project))

    def _access(self) -> NodeAccess:
        return NodeAccess(
            ssh_user=self.ssh_user,
            proxy_command=self.proxy_command,
            write_kernelspecs=self.write_kernelspecs,
            connect_ahead=self.connect_ahead,
            unsure_s=self.unsure_s,
        )

    def _serve(self, settings: CloudSettings) -> ServedCloud:
        """Return an emulated cloud for this server; its workers are on this machine, so connections are direct."""
        access = replace(self._access(), ssh_user="", proxy_command="")
        return ServedCloud(lambda: settings, access, self._emit, self.log)

    def _emit(self, change: FleetChange) -> None:
        self._event_logger.emit(schema_id=FLEET_EVENT, data=change.to_json())

    @property
    def _event_logger(self) -> EventLogger:
        assert self.serverapp is not None  # the server sets it before calling any method of this class
        return cast(EventLogger, self.serverapp.event_logger)

    def cloud_settings(self) -> CloudSettings:
        """Return the settings from the traits or, for empty traits, from the environment.

        Raises:
            BadInput: the endpoint is not HOST:PORT.
        """
        from_environment = settings_from_environment()
        return CloudSettings(
            project=self.project or from_environment.project, endpoint=self.endpoint or from_environment.endpoint
        )

    async def status(self) -> dict[str, Any]:
        """Return the body of ``GET status``; if an error occurs, the body contains it."""
        await self.trial.settled()
        shown = self.shown
        settings, error = await shown.status()
        return {
            "project": settings.project,
            "endpoint": settings.endpoint,
            "emulated": settings.is_emulated,
            "switchboard": shown.emulator is not None,
            "trial": shown is not self.own,
            "version": __version__,
            "error": error_view(error),
        }

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.log.error("A background task of jupyter_tpu failed.", exc_info=task.exception())

    async def stop_extension(self) -> None:
        """Close everything when the server stops. Never raises, because other extensions must still be stopped."""
        try:
            # close everything in reverse order, even if one of them fails: kernels are detached before the fleet is
            # closed
            async with AsyncExitStack() as each:
                each.push_async_callback(self.own.close)
                each.push_async_callback(self.metrics_pool.close)
                each.push_async_callback(self.node_files.close)
                each.push_async_callback(self.port_tunnels.close)
                each.push_async_callback(self._end_tasks)
                each.push_async_callback(self.adoption.leave if self.keep_kernels else self.adoption.close)
                # close the trial first, because its kernels are shut down with it
                each.push_async_callback(self.trial.close)
        except Exception:
            self.log.exception("jupyter_tpu did not close cleanly; its journal and the list of kernels are intact.")

    async def _end_tasks(self) -> None:
        """Cancel the background tasks repeatedly until all have finished.

        A single cancellation is not enough, because libraries may swallow it.
        """
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=1)


def front_end_language(server: Any) -> str:
    """Return the display language set in a server's JupyterLab or Notebook, or "" if it follows the system."""
    for app in (each for loaded in server.extension_manager.extension_apps.values() for each in loaded):
        if hasattr(app, "user_settings_dir"):
            language = _locale_setting(app)
            if language not in ("", "default"):
                return language
    return ""


def _locale_setting(app: Any) -> str:
    from jupyterlab_server.settings_utils import get_settings  # JupyterLab has already loaded it

    folders = (app.app_settings_dir, app.schemas_dir, app.user_settings_dir)
    try:
        answer, _ = get_settings(*folders, schema_name="@jupyterlab/translation-extension:plugin")
    except HTTPError:  # this application has no such setting
        return ""
    return str(answer["settings"].get("locale", ""))


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
