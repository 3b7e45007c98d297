/** The Running panel, notifications, the choice of a node for a notebook, and the status bar's pop-up. */

import { TranslationBundle } from '@jupyterlab/translation';

// Running panel

export function runningNodes(trans: TranslationBundle): string {
  return trans.__('TPU Nodes');
}

export function stopNode(trans: TranslationBundle): string {
  return trans.__('Stop Node…');
}

export function stopAllNodes(trans: TranslationBundle): string {
  return trans.__('Stop Everything');
}

export function nodeTitle(
  type: string,
  zone: string,
  state: string,
  trans: TranslationBundle
): string {
  return trans.__('%1 in %2, %3', type, zone, state);
}

// Choice of a node for a notebook

export function runOnTpu(notebook: string, trans: TranslationBundle): string {
  return trans.__('Run %1 on TPU', notebook);
}

export function chooseNode(trans: TranslationBundle): string {
  return trans.__('Node');
}

export function newNode(trans: TranslationBundle): string {
  return trans.__('New node…');
}

export function newNodeHint(trans: TranslationBundle): string {
  return trans.__('Choose chips, zone and price first.');
}

export function currentNode(trans: TranslationBundle): string {
  return trans.__('this notebook runs here');
}

export function continueButton(trans: TranslationBundle): string {
  return trans.__('Continue');
}

export function kernelRestarts(trans: TranslationBundle): string {
  return trans.__('The notebook gets a new kernel on the node. Rerun its cells there.');
}

// Notifications

export function nodeReady(name: string, trans: TranslationBundle): string {
  return trans.__('%1 is ready.', name);
}

export function endsSoon(
  name: string,
  span: string,
  why: string,
  trans: TranslationBundle
): string {
  return why
    ? trans.__('%1 stops in %2: %3.', name, span, why)
    : trans.__('%1 stops in %2.', name, span);
}

export function deletedSoon(
  name: string,
  span: string,
  why: string,
  trans: TranslationBundle
): string {
  return why
    ? trans.__('%1 is deleted in %2: %3.', name, span, why)
    : trans.__('%1 is deleted in %2.', name, span);
}

/** A notebook that gets its kernel on another node than before, one with the same name. */
export function newNodeOfSameName(
  name: string,
  notebook: string,
  trans: TranslationBundle
): string {
  return trans.__(
    '%1 is a new node. %2 ran on an earlier node with this name.',
    ...[name, notebook]
  );
}

export function preempted(name: string, trans: TranslationBundle): string {
  return trans.__('%1 was pre-empted.', name);
}

export function keptUntil(name: string, time: string, trans: TranslationBundle): string {
  return trans.__('%1 keeps running until %2.', name, time);
}

export function openNotebook(trans: TranslationBundle): string {
  return trans.__('Open new notebook');
}

export function showPanel(trans: TranslationBundle): string {
  return trans.__('Show panel');
}

// Status bar

export function nothingRuns(trans: TranslationBundle): string {
  return trans.__('TPU: nothing running');
}

/** Instead of a rate while nothing is billed yet. */
export function creating(names: readonly string[], trans: TranslationBundle): string {
  return names.length === 1
    ? trans.__('TPU: creating %1', names[0])
    : trans._n('TPU: creating %1 node', 'TPU: creating %1 nodes', names.length);
}

export function starting(names: readonly string[], trans: TranslationBundle): string {
  return names.length === 1
    ? trans.__('TPU: starting %1', names[0])
    : trans._n('TPU: starting %1 node', 'TPU: starting %1 nodes', names.length);
}

export function queued(count: number, trans: TranslationBundle): string {
  return trans._n('%1 queued', '%1 queued', count);
}

export function notLoaded(trans: TranslationBundle): string {
  return trans.__('TPU');
}

export function noServer(trans: TranslationBundle): string {
  return trans.__('TPU: no connection to the server');
}

export function notSetUp(trans: TranslationBundle): string {
  return trans.__('TPU: not set up');
}

/** The used share of a budget: `96 % of budget`, and from twice the budget on `697 × the budget`. */
export function ofBudget(share: number, trans: TranslationBundle): string {
  // rounded down: 99.6 % is not used up
  return share < 2
    ? trans.__('%1 % of budget', Math.floor(100 * share))
    : trans.__('%1 × the budget', share < 10 ? Number(share.toFixed(1)) : Math.round(share));
}

export function inUse(trans: TranslationBundle): string {
  return trans.__('in use');
}

export function idle(trans: TranslationBundle): string {
  return trans.__('idle');
}

export function someInUse(busy: number, count: number, trans: TranslationBundle): string {
  return trans.__('%1 of %2 nodes in use', busy, count);
}

export function status(trans: TranslationBundle): string {
  return trans.__('TPU status');
}

export function connected(trans: TranslationBundle): string {
  return trans.__('connected');
}

export function chips(percent: number, trans: TranslationBundle): string {
  return trans.__('chip use %1 %', percent);
}

export function noNodeRuns(trans: TranslationBundle): string {
  return trans.__('No node is running.');
}

export function noBudget(trans: TranslationBundle): string {
  return trans.__('No budget is set.');
}

export function openPanel(trans: TranslationBundle): string {
  return trans.__('Open TPU panel');
}

export function createNode(trans: TranslationBundle): string {
  return trans.__('Create node…');
}

export function stopEverything(trans: TranslationBundle): string {
  return trans.__('Stop everything…');
}

// Notebook 7

export function tab(trans: TranslationBundle): string {
  return trans.__('TPU');
}
