/** The actions of errors: which of them this front end offers, and how they run. */

import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { createContext } from 'react';
import { IAction } from './api.generated';
import * as messages from './messages/problems';
import { actionLabel } from './messages/problems';
import { problemOf } from './request';
import { CommandIDs, IProblem } from './tokens';
import { MoneyCommandIDs } from './money/tokens';

/** All commands that errors name. The compiler checks that these are the commands of the REST API. */
export const ACTION_COMMANDS: { readonly [command in IAction['command']]: string } = {
  'tpu:open-form': CommandIDs.openForm,
  'tpu:show-section': MoneyCommandIDs.showSection,
  'tpu:raise-budget': MoneyCommandIDs.raiseBudget,
  'tpu:open-console': CommandIDs.openConsole,
  'tpu:copy-command': CommandIDs.copyCommand,
  'tpu:start-node': CommandIDs.startNode,
  'tpu:stop-node': CommandIDs.stopNode,
  'tpu:delete-node': CommandIDs.deleteNode,
  'tpu:refresh': CommandIDs.refresh
};

/** The number of buttons that fit into one line of a notification; the card of a failed creation has them all. */
const NOTIFIED_ACTIONS = 2;

/** Runs the actions of errors. */
export class ErrorActions {
  constructor(
    private readonly _commands: CommandRegistry,
    private readonly _trans: TranslationBundle
  ) {}

  /** The actions whose commands exist: a plugin may be disabled, or the server newer than this extension. */
  of(problem: IProblem): readonly IAction[] {
    return problem.actions.filter(
      ({ command }) => command in ACTION_COMMANDS && this._commands.hasCommand(command)
    );
  }

  label(action: IAction): string {
    return actionLabel(action, this._trans);
  }

  /** Run an action; returns whether its command says that the cause of the error is gone. */
  async run({ command, args }: IAction): Promise<boolean> {
    try {
      return (await this._commands.execute(command, { ...args })) === true;
    } catch (error) {
      this.notify(problemOf(error));
      return false;
    }
  }

  /**
   * Show an error as a notification with its first actions, because the panel has no place for it; returns the notification's
   * id.
   */
  notify(problem: IProblem): string {
    return Notification.error(problem.message, {
      autoClose: false,
      actions: this.of(problem)
        .slice(0, NOTIFIED_ACTIONS)
        .map(action => ({
          label: this.label(action),
          callback: () => void this.run(action)
        }))
    });
  }
}

/** The actions of the errors that a widget shows; null where errors have no buttons. */
export const ErrorActionsContext = createContext<ErrorActions | null>(null);

/** Matches the commands that hints name for use in a terminal. */
const OWN_COMMAND =
  /`?jupyter tpu (list|create|start|stop|delete|quota|budget|cleanup|search|queue|grant|recover|autostop)\b/;
const OTHERS_COMMAND = /`gcloud (services enable|auth application-default login)/;

/**
 * The advice of an error, and its collapsed details; terminal commands are collapsed if a button does the same.
 *
 *  @param hasActions whether the error has buttons
 */
export function hintOf(
  problem: IProblem,
  hasActions: boolean,
  trans: TranslationBundle
): { readonly shown: string; readonly folded: string } {
  const { hint } = problem;
  const isReplaced = hasActions && (OWN_COMMAND.test(hint) || OTHERS_COMMAND.test(hint));
  return isReplaced
    ? { shown: messages.advice(problem, trans), folded: hint }
    : { shown: hint, folded: '' };
}
