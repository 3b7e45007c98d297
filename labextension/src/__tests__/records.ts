/** Recorded requests and live messages, as a test wants them. */

import * as nbformat from '@jupyterlab/nbformat';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { IOutputsAnswer, IRecordedRequest } from '../restore/records';

export const OLD_SESSION = 'old-page';

export function header(msg_id: string, msg_type = 'execute_request'): KernelMessage.IHeader {
  const date = '2026-01-01T00:00:00Z';
  return {
    msg_id,
    msg_type,
    session: OLD_SESSION,
    username: '',
    version: '5.3',
    date
  } as KernelMessage.IHeader;
}

export function request(
  msg_id: string,
  cell_id: string | null,
  rest: Partial<IRecordedRequest> = {}
): IRecordedRequest {
  return {
    msg_id,
    cell_id,
    session: OLD_SESSION,
    code: `run(${cell_id})`,
    header: header(msg_id) as IRecordedRequest['header'],
    state: 'done',
    execution_count: 1,
    outputs: [text('one\n')],
    messages: null,
    input: null,
    omitted_bytes: 0,
    ...rest
  };
}

export function answer(requests: readonly IRecordedRequest[], seq = 100): IOutputsAnswer {
  return { kernel_id: 'k1', seq, requests };
}

export function text(words: string, name = 'stdout'): nbformat.IOutput {
  return { output_type: 'stream', name, text: words };
}

export function display(words: string, display_id = ''): nbformat.IOutput {
  return {
    output_type: 'display_data',
    data: { 'text/plain': words },
    metadata: {},
    ...(display_id ? { transient: { display_id } } : {})
  };
}

/** A message of a kernel, at a place in its record. */
export function message(
  parent: string,
  msg_type: string,
  content: object,
  seq?: number,
  first_seq?: number
): KernelMessage.IIOPubMessage {
  return {
    channel: msg_type === 'input_request' ? 'stdin' : 'iopub',
    header: header(`${parent}-${msg_type}-${seq ?? ''}`, msg_type),
    parent_header: header(parent),
    metadata: seq === undefined ? {} : { jupyter_tpu: { seq, ...(first_seq && { first_seq }) } },
    content,
    buffers: []
  } as unknown as KernelMessage.IIOPubMessage;
}

export function stream(parent: string, words: string, seq?: number): KernelMessage.IIOPubMessage {
  return message(parent, 'stream', { name: 'stdout', text: words }, seq);
}

export function status(
  parent: string,
  execution_state: Kernel.Status,
  seq?: number
): KernelMessage.IIOPubMessage {
  return message(parent, 'status', { execution_state }, seq);
}
