/** In notebooks: the kernel's start and connection, and restored outputs. */

import { TranslationBundle } from '@jupyterlab/translation';

// Kernel start and connection

export function progress(message: string, percent: number, trans: TranslationBundle): string {
  return trans.__('%1 (%2 %)', message, percent);
}

export function serverAway(age: string, trans: TranslationBundle): string {
  return trans.__('Server unreachable · %1', age);
}

export function serverAwayTitle(age: string, trans: TranslationBundle): string {
  return trans.__('No response from the Jupyter server for %1. The kernel keeps running.', age);
}

export function disconnected(age: string, trans: TranslationBundle): string {
  return trans.__('Disconnected · %1', age);
}

export function disconnectedTitle(age: string, trans: TranslationBundle): string {
  return trans.__('No connection to the node for %1. The kernel keeps running.', age);
}

export function catchingUp(trans: TranslationBundle): string {
  return trans.__('Catching up');
}

export function catchingUpTitle(trans: TranslationBundle): string {
  return trans.__('Reconnected to the node. Receiving missed output.');
}

export function connectionLost(trans: TranslationBundle): string {
  return trans.__('Connection lost');
}

export function connectionLostTitle(age: string, reason: string, trans: TranslationBundle): string {
  return trans.__('Connection lost %1 ago: %2', age, reason);
}

/** The line about a failed start. JupyterLab's dialog has shown the reason, and so does the line's tooltip. */
export function notStarted(trans: TranslationBundle): string {
  return trans.__('Kernel not started');
}

export function notRestarted(trans: TranslationBundle): string {
  return trans.__('Kernel not restarted');
}

// Restored outputs

export function notRestored(trans: TranslationBundle): string {
  return trans.__('Outputs not restored yet');
}

export function cellsRestored(count: number, trans: TranslationBundle): string {
  return trans._n('%1 cell restored', '%1 cells restored', count);
}

export function withoutCell(count: number, trans: TranslationBundle): string {
  return trans._n('%1 output without a cell', '%1 outputs without a cell', count);
}

export function shortened(count: number, trans: TranslationBundle): string {
  return trans._n('%1 output shortened', '%1 outputs shortened', count);
}

export function showThese(trans: TranslationBundle): string {
  return trans.__('Show these outputs');
}

export function elsewhereTitle(trans: TranslationBundle): string {
  return trans.__('Outputs not in this notebook');
}

export function allInCells(trans: TranslationBundle): string {
  return trans.__('All outputs of this kernel are in their cells.');
}

export function close(trans: TranslationBundle): string {
  return trans.__('Close');
}

export function fromMissingCells(trans: TranslationBundle): string {
  return trans.__('From cells that are not in this notebook');
}

export function keptOnNode(trans: TranslationBundle): string {
  return trans.__('Stored only on the node, and in this page. To keep them, add them as cells.');
}

export function fullTextOnNode(trans: TranslationBundle): string {
  return trans.__('The full text is stored only on the node. To keep it, download it.');
}

export function shortenedHere(trans: TranslationBundle): string {
  return trans.__('Shortened in this notebook');
}

export function openFullText(trans: TranslationBundle): string {
  return trans.__('Open full text');
}

export function download(trans: TranslationBundle): string {
  return trans.__('Download');
}

export function copyCode(trans: TranslationBundle): string {
  return trans.__('Copy code');
}

export function addedAtEnd(trans: TranslationBundle): string {
  return trans.__('Added at the end');
}

export function addAsCell(trans: TranslationBundle): string {
  return trans.__('Add as cell');
}
