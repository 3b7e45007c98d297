/** The commands on kernels that run on nodes. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { KernelAPI, Session } from '@jupyterlab/services';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import * as messages from '../messages/commands';
import { confirmRestart, confirmShutDown } from '../nodedialogs';
import { CommandIDs } from '../tokens';

type Args = ReadonlyPartialJSONObject;

interface IContext {
  readonly app: JupyterFrontEnd;
  readonly trans: TranslationBundle;
  /** The notebooks of this page; null where there are none. */
  readonly tracker: INotebookTracker | null;
}

/** Add the commands, which take the id of a session. */
export function addKernelCommands(context: IContext): void {
  const { app, trans } = context;
  const add = (
    id: string,
    label: string,
    act: (session: Session.IModel) => Promise<unknown>
  ): void => {
    app.commands.addCommand(id, {
      label,
      describedBy: { args: { type: 'object', properties: { session_id: { type: 'string' } } } },
      execute: async args => {
        const session = findSession(app, args);
        return session && act(session);
      }
    });
  };
  add(CommandIDs.openKernel, messages.openKernel(trans), session =>
    app.commands.execute(session.type === 'console' ? 'console:open' : 'docmanager:open', {
      path: session.path
    })
  );
  add(CommandIDs.restartKernel, messages.restartKernel(trans), async session => {
    if (await confirmRestart(nameOf(session), trans)) {
      await restart(context, session);
    }
  });
  add(CommandIDs.shutDownKernel, messages.shutDownKernel(trans), async session => {
    if (await confirmShutDown(nameOf(session), trans)) {
      await app.serviceManager.sessions.shutdown(session.id);
    }
  });
}

function findSession(
  { serviceManager }: JupyterFrontEnd,
  { session_id }: Args
): Session.IModel | undefined {
  return [...serviceManager.sessions.running()].find(({ id }) => id === session_id);
}

function nameOf({ name, path }: Session.IModel): string {
  return name || path;
}

/** Restart a kernel. An open notebook does it itself, so that it knows of the restart at once. */
async function restart(
  { app, tracker }: IContext,
  { kernel, path }: Session.IModel
): Promise<void> {
  const shown = tracker?.find(({ context }) => context.path === path);
  const own = shown?.sessionContext.session?.kernel;
  if (own) {
    await own.restart();
  } else if (kernel) {
    await KernelAPI.restartKernel(kernel.id, app.serviceManager.serverSettings);
  }
}
