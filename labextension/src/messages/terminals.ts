/** Terminals on nodes. */

import { TranslationBundle } from '@jupyterlab/translation';

// Commands (title case)

export function openTerminal(trans: TranslationBundle): string {
  return trans.__('Open Terminal on Node');
}

/** In the menu of a node's card. */
export function openTerminalHere(trans: TranslationBundle): string {
  return trans.__('New Terminal on This Node');
}

export function showTerminal(trans: TranslationBundle): string {
  return trans.__('Show Terminal on Node');
}

export function shutDownTerminal(trans: TranslationBundle): string {
  return trans.__('Shut Down Terminal on Node');
}

// Tabs

export function terminalOn(name: string, zone: string, trans: TranslationBundle): string {
  return trans.__('Terminal on %1 (%2)', name, zone);
}

export function unavailable(trans: TranslationBundle): string {
  return trans.__('Terminals are turned off in this JupyterLab.');
}

export function installTerminals(trans: TranslationBundle): string {
  return trans.__(
    'Install the package jupyter-server-terminals in its environment, set ServerApp.terminals_enabled to True, and restart it. Or run jupyter tpu ssh in a terminal of your computer.'
  );
}

// Open cards

export function terminalsOn(name: string, trans: TranslationBundle): string {
  return trans.__('Terminals on %1', name);
}

export function terminal(trans: TranslationBundle): string {
  return trans.__('Terminal');
}

/** A terminal in which a command runs. */
export function terminalWith(command: string, trans: TranslationBundle): string {
  return trans.__('Terminal: %1', command);
}

export function since(time: string, trans: TranslationBundle): string {
  return trans.__('since %1', time);
}

export function showThis(trans: TranslationBundle): string {
  return trans.__('Show this terminal');
}

/** @param name the text of the list entry, such as `Terminal: htop` */
export function shutDownThis(name: string, trans: TranslationBundle): string {
  return trans.__('Shut down: %1', name);
}

export function shutDownQuestion(node: string, trans: TranslationBundle): string {
  return trans.__('Shut down this terminal on %1?', node);
}

export function shutDownButton(trans: TranslationBundle): string {
  return trans.__('Shut down');
}

export function commandEnds(command: string, trans: TranslationBundle): string {
  return trans.__('%1 is running in it, and ends.', command);
}
