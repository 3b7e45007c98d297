/** Texts that several screens share. */

import { TranslationBundle } from '@jupyterlab/translation';

// The product, and the emulated cloud

export function product(trans: TranslationBundle): string {
  return trans.__('Cloud TPU');
}

export function emulatedCloud(trans: TranslationBundle): string {
  return trans.__('Emulated cloud');
}

export function emulatedCloudSentence(trans: TranslationBundle): string {
  return trans.__('Emulated cloud: costs are simulated.');
}

export function simulatorSummary(trans: TranslationBundle): string {
  return trans.__('Pre-empt nodes, remove capacity, interrupt connections, advance the clock');
}

// Buttons

export function cancel(trans: TranslationBundle): string {
  return trans.__('Cancel');
}

export function dismiss(trans: TranslationBundle): string {
  return trans.__('Dismiss');
}

export function tryAgain(trans: TranslationBundle): string {
  return trans.__('Try again');
}

export function remove(trans: TranslationBundle): string {
  return trans.__('Remove');
}

export function deleteButton(trans: TranslationBundle): string {
  return trans.__('Delete');
}

export function deleteEllipsis(trans: TranslationBundle): string {
  return trans.__('Delete…');
}

export function stopButton(trans: TranslationBundle): string {
  return trans.__('Stop');
}

export function stopEllipsis(trans: TranslationBundle): string {
  return trans.__('Stop…');
}

export function stopNode(name: string, trans: TranslationBundle): string {
  return trans.__('Stop %1', name);
}

export function deleteNode(name: string, trans: TranslationBundle): string {
  return trans.__('Delete %1', name);
}

export function createNode(trans: TranslationBundle): string {
  return trans.__('Create a node');
}

// Fields of forms

export function name(trans: TranslationBundle): string {
  return trans.__('Name');
}

export function zone(trans: TranslationBundle): string {
  return trans.__('Zone');
}

export function generation(trans: TranslationBundle): string {
  return trans.__('Generation');
}

export function runtimeVersion(trans: TranslationBundle): string {
  return trans.__('Runtime version');
}

export function recreate(trans: TranslationBundle): string {
  return trans.__('Recreate after pre-emption');
}

export function useWholeNumberFrom(least: number, most: number, trans: TranslationBundle): string {
  return trans.__('Use a whole number from %1 to %2.', least, most);
}

export function useNumberAboveZero(trans: TranslationBundle): string {
  return trans.__('Use a number above 0.');
}

// Lists and their freshness

export function lastUpdated(age: string, trans: TranslationBundle): string {
  return trans.__('Last updated %1 ago', age);
}

export function updatedAt(time: string, trans: TranslationBundle): string {
  return trans.__('Updated %1', time);
}

export function couldNotLoad(reason: string, trans: TranslationBundle): string {
  return trans.__("Couldn't load: %1", reason);
}

export function notLoaded(trans: TranslationBundle): string {
  return trans.__('Not loaded yet.');
}

export function loading(trans: TranslationBundle): string {
  return trans.__('Loading…');
}

export function noAnswerFrom(zones: string, trans: TranslationBundle): string {
  return trans.__('Incomplete: no response from %1.', zones);
}

export function incomplete(trans: TranslationBundle): string {
  return trans.__("Incomplete: some data couldn't be loaded.");
}

export function andMore(count: number, trans: TranslationBundle): string {
  return trans.__('and %1 more', count);
}

export function originalMessage(trans: TranslationBundle): string {
  return trans.__('Original message');
}

export function timeRange(trans: TranslationBundle): string {
  return trans.__('Time range');
}

export function asTable(trans: TranslationBundle): string {
  return trans.__('Show as table');
}

// Words and punctuation

export function unknown(trans: TranslationBundle): string {
  return trans.__('unknown');
}

export function leftover(trans: TranslationBundle): string {
  return trans.__('leftover');
}

export function createdElsewhere(trans: TranslationBundle): string {
  return trans.__('created elsewhere');
}

export function inPlace(what: string, where: string, trans: TranslationBundle): string {
  return trans.__('%1 in %2', what, where);
}

export function labelled(label: string, text: string, trans: TranslationBundle): string {
  return trans.__('%1: %2', label, text);
}

export function twoSentences(first: string, second: string, trans: TranslationBundle): string {
  return trans.__('%1. %2', first, second);
}

export function nodeIs(name: string, state: string, trans: TranslationBundle): string {
  return trans.__('%1 is %2.', name, state);
}
