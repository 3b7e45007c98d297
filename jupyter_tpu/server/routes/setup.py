"""The setup routes: the steps, their actions, and trying the emulated cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from jupyter_server.auth.decorator import authorized
from tornado import web

from jupyter_tpu.server.routes.bodies import json_object, refuse_unknown_fields
from jupyter_tpu.server.routes.nodes import TpuHandler
from jupyter_tpu.setup.example import put_example
from jupyter_tpu.setup.steps import is_complete

if TYPE_CHECKING:
    from jupyter_tpu.server.served_cloud import ServedCloud
    from jupyter_tpu.server.trial_switch import TrialSwitch
    from jupyter_tpu.setup.engine import SetupEngine

_VALUES = ("path", "project", "account", "usd")


class SetupApp(Protocol):
    """The part of the extension that the setup routes need in addition to `nodes.App`."""

    own: ServedCloud
    trial: TrialSwitch

    def setup_engine(self) -> SetupEngine:
        """Return the setup engine for the user's own cloud."""
        ...

    def cloud_changed(self) -> None:
        """Make front ends reload all data, because the cloud, the project or the account has changed."""
        ...

    async def status(self) -> dict[str, Any]:
        """Return the body of ``GET status``."""
        ...


class SetupRoute(TpuHandler):
    """Base class of the handlers for the setup steps."""

    @property
    def setup_app(self) -> SetupApp:
        """The extension app that these handlers belong to."""
        return cast(SetupApp, self.app)

    async def steps(self) -> dict[str, Any]:
        """Return the steps as JSON."""
        steps = await self.setup_app.setup_engine().check()
        return {"is_complete": is_complete(steps), "steps": [step.to_json() for step in steps]}


class SetupHandler(SetupRoute):
    """``setup``: the setup steps of the user's own cloud."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Check all steps."""
        self.write_json(await self.steps())


class SetupActionHandler(SetupRoute):
    """``setup/{action}``: perform the action of a step."""

    @web.authenticated
    @authorized
    async def post(self, action: str) -> None:
        """Perform the action; return the resulting steps."""
        values = json_object(self.request.body, ", ".join(_VALUES))
        refuse_unknown_fields(values, _VALUES)
        app = self.setup_app
        await app.setup_engine().perform(action, values)
        await app.own.reopen()
        app.cloud_changed()
        self.write_json(await self.steps())


class TrialHandler(SetupRoute):
    """``trial``: switch to an emulated cloud on this machine, or back to the user's own cloud."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Start the emulated cloud and show it, unless the demo already runs an emulated cloud; return the status."""
        if self.setup_app.own.emulator is None:
            await self.setup_app.trial.start()
            await self._put_example()
        await self._finish()

    @web.authenticated
    @authorized
    async def delete(self) -> None:
        """Stop the emulated cloud and show the user's own cloud; return the status."""
        await self.setup_app.trial.stop()
        await self._finish()

    async def _put_example(self) -> None:
        """Copy the demo's example notebook to the user's notebooks; the trial also works without it."""
        try:
            await put_example(self.contents_manager)
        except (web.HTTPError, OSError) as error:
            self.log.info("The example notebook was not written: %s", error)

    async def _finish(self) -> None:
        self.setup_app.cloud_changed()
        self.write_json(await self.setup_app.status())


SETUP_ROUTES: tuple[tuple[str, type[TpuHandler]], ...] = (
    (r"/jupyter-tpu/v1/setup", SetupHandler),
    (r"/jupyter-tpu/v1/setup/(?P<action>[a-z_]+)", SetupActionHandler),
    (r"/jupyter-tpu/v1/trial", TrialHandler),
)
"""The path pattern and handler of each route, as in `nodes.NODE_ROUTES`."""
