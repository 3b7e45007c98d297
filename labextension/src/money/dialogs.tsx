/** What the user is asked before something is deleted for money's sake. */

import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { ask } from '../components/question';
import { IQueued, ISweepItem } from './records';
import { formatSweepCost } from './words';

interface IQuestion {
  readonly emulated: boolean;
  readonly trans: TranslationBundle;
}

/** Whether to delete what is marked; names it, with its cost. */
export async function confirmSweep(
  names: readonly string[],
  known: readonly ISweepItem[],
  { emulated, trans }: IQuestion
): Promise<boolean> {
  const items = known.filter(({ name }) => names.includes(name));
  const foreign = items.filter(({ is_ours }) => !is_ours).length;
  return ask(
    trans._n('Delete %1 thing?', 'Delete %1 things?', names.length),
    trans.__('Delete'),
    <>
      <ul>
        {names.map(name => (
          <li key={name}>{name.split('/').slice(-3).join(' / ')}</li>
        ))}
      </ul>
      <p>
        <strong>
          {items.length < names.length
            ? trans.__('What all of it costs is not known.')
            : formatSweepCost(items, trans)}
        </strong>
      </p>
      {emulated && <p>{trans.__('Nothing is billed: the cloud is emulated.')}</p>}
      {foreign > 0 && (
        <p>
          <strong>
            {trans.__(
              '%1 of it was not created by jupyter_tpu and may be in use by someone else.',
              foreign
            )}
          </strong>
        </p>
      )}
      <p>{trans.__('Disks and every file on them are lost, and kernels end.')}</p>
    </>,
    trans
  );
}

/** States in which a queued resource has no node that could be lost. */
const WITHOUT_NODE = new Set(['ACCEPTED', 'WAITING_FOR_RESOURCES', 'FAILED', 'SUSPENDED']);

/** Whether to remove a queued resource; asked only where its node goes with it. */
export async function confirmRemoval(
  queuedId: string,
  known: IQueued | undefined,
  trans: TranslationBundle
): Promise<boolean> {
  if (known && WITHOUT_NODE.has(known.state)) {
    return true;
  }
  return ask(
    trans.__('Remove %1?', queuedId),
    trans.__('Remove'),
    <p>
      {trans.__(
        'Its node is deleted with it: disk and every file on it are lost, and its kernels end.'
      )}
    </p>,
    trans
  );
}

/** Whether to end all that is billed. */
export function confirmPanic(rate: string, { emulated, trans }: IQuestion): Promise<boolean> {
  return ask(
    trans.__('Stop all spending now?'),
    trans.__('Stop all spending'),
    <>
      <p>
        {trans.__(
          'Everything of this project that is billed is stopped or deleted, in all zones, also what was made elsewhere. Kernels end.'
        )}
      </p>
      <p>
        <strong>{trans.__('Now: %1.', rate)}</strong>
      </p>
      {emulated && <p>{trans.__('Nothing is billed: the cloud is emulated.')}</p>}
    </>,
    trans
  );
}
