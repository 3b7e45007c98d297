/** The set-up: the first steps, what is missing in the project, and the emulated cloud. */

import { TranslationBundle } from '@jupyterlab/translation';
import { ISetupStep } from '../api.generated';
import { openButton } from './panel';

// First steps

export function firstSteps(trans: TranslationBundle): string {
  return trans.__('First steps');
}

export function hide(trans: TranslationBundle): string {
  return trans.__('Hide first steps');
}

export function connectStep(trans: TranslationBundle): string {
  return trans.__('Connect your Google Cloud project');
}

export function connected(trans: TranslationBundle): string {
  return trans.__('Connected');
}

export function createStep(trans: TranslationBundle): string {
  return trans.__('Create a node');
}

export function createHint(trans: TranslationBundle): string {
  return trans.__('You see the price before anything is created.');
}

export function notebookStep(trans: TranslationBundle): string {
  return trans.__('Open a notebook on the node');
}

export function notebookHint(trans: TranslationBundle): string {
  return trans.__(
    "Click %1 on the node's card below. A new notebook opens and runs on the node, as on a local kernel.",
    openButton(trans)
  );
}

export function nodeIsStarting(trans: TranslationBundle): string {
  return trans.__('The node is starting.');
}

export function stepState(isDone: boolean, trans: TranslationBundle): string {
  return isDone ? trans.__('Done') : trans.__('To do');
}

// The emulated cloud

export function tryEmulatedCloud(trans: TranslationBundle): string {
  return trans.__('Try the emulated cloud');
}

export function tryHint(trans: TranslationBundle): string {
  return trans.__(
    'No account? The emulated cloud runs on this computer, is free and sends no data to Google Cloud. You can switch back at any time.'
  );
}

export function tryBesideHint(trans: TranslationBundle): string {
  return trans.__(
    'Starts an emulated cloud on this computer and shows it here. It is free. Your nodes and kernels on Google Cloud keep running.'
  );
}

export function starting(trans: TranslationBundle): string {
  return trans.__('Starting the emulated cloud…');
}

export function trying(trans: TranslationBundle): string {
  return trans.__('You are trying the emulated cloud.');
}

export function exampleIsThere(file: string, trans: TranslationBundle): string {
  return trans.__("The example notebook %1 is in the file browser's root folder.", file);
}

export function backToGoogleCloud(trans: TranslationBundle): string {
  return trans.__('Back to Google Cloud');
}

export function goingBack(trans: TranslationBundle): string {
  return trans.__('Switching back…');
}

export function backQuestion(trans: TranslationBundle): string {
  return trans.__('Switch back to Google Cloud?');
}

export function kernelsShutDown(count: number, trans: TranslationBundle): string {
  return trans._n(
    '%1 kernel on an emulated node is shut down. Notebooks and emulated nodes are kept.',
    '%1 kernels on emulated nodes are shut down. Notebooks and emulated nodes are kept.',
    count
  );
}

// What is missing in the project

export function title(trans: TranslationBundle): string {
  return trans.__('Set-up');
}

export function checking(trans: TranslationBundle): string {
  return trans.__('Checking your project…');
}

export function checkAgain(trans: TranslationBundle): string {
  return trans.__('Check again');
}

export function close(trans: TranslationBundle): string {
  return trans.__('Close');
}

export function complete(trans: TranslationBundle): string {
  return trans.__('Complete: you can create nodes.');
}

export function waitingForCredentials(trans: TranslationBundle): string {
  return trans.__(
    "Sign in with gcloud in a terminal, or enter the path of a credentials file on the Jupyter server's computer. This panel continues once you are signed in."
  );
}

export function keyTitle(key: ISetupStep['key'], trans: TranslationBundle): string {
  switch (key) {
    case 'credentials':
      return trans.__('Credentials');
    case 'project':
      return trans.__('Project and billing');
    case 'api':
      return trans.__('Cloud TPU API');
    case 'quota':
      return trans.__('Quota and grant');
    case 'budget':
      return trans.__('Budget and auto-stop');
  }
}

export function stateName(state: ISetupStep['state'], trans: TranslationBundle): string {
  switch (state) {
    case 'done':
      return trans.__('Done');
    case 'to_do':
      return trans.__('To do');
    case 'unknown':
      return trans.__('Unknown');
    case 'failed':
      return trans.__('Failed');
  }
}

export function notCheckedYet(trans: TranslationBundle): string {
  return trans.__('Not checked yet');
}

export function setUpEllipsis(trans: TranslationBundle): string {
  return trans.__('Set-up…');
}

export function actionName(action: ISetupStep['action'], trans: TranslationBundle): string {
  switch (action) {
    case 'use_credentials':
      return trans.__('Use file');
    case 'use_project':
      return trans.__('Use project');
    case 'link_billing':
      return trans.__('Link billing account');
    case 'open_billing':
      return trans.__('Open billing page');
    case 'enable_api':
      return trans.__('Enable API');
    case 'add_grant':
      return trans.__('Add TRC email…');
    case 'set_budget':
      return trans.__('Set budget');
    case '':
      return '';
  }
}

/** The label of the field that an action needs; empty if it needs none. */
export function fieldName(action: ISetupStep['action'], trans: TranslationBundle): string {
  switch (action) {
    case 'use_credentials':
      return trans.__('Path to a credentials file (JSON)');
    case 'use_project':
      return trans.__('Project ID');
    case 'set_budget':
      return trans.__('US dollars per week');
    default:
      return '';
  }
}

export function copyCommand(trans: TranslationBundle): string {
  return trans.__('Copy command');
}

// Commands

export function setUp(trans: TranslationBundle): string {
  return trans.__('Set Up Cloud TPU');
}

export function useEmulatedCloud(trans: TranslationBundle): string {
  return trans.__('Try the Emulated Cloud');
}

export function useOwnCloud(trans: TranslationBundle): string {
  return trans.__('Switch Back to Google Cloud');
}

export function performAction(trans: TranslationBundle): string {
  return trans.__('Run a Set-up Step');
}
