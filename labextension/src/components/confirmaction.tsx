/** A confirmation before an action that can't be undone; Cancel has the focus. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import * as common from '../messages/common';

export async function confirmAction(
  title: string,
  accept: string,
  body: JSX.Element,
  trans: TranslationBundle
): Promise<boolean> {
  const result = await showDialog({
    title,
    body: <div className="jp-tpu-Question">{body}</div>,
    buttons: [
      Dialog.cancelButton({ label: common.cancel(trans) }),
      Dialog.warnButton({ label: accept })
    ],
    defaultButton: 0
  });
  return result.button.accept;
}
