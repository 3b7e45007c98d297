/** Recorded requests of a kernel as the server extension returns them; pure. */

import * as nbformat from '@jupyterlab/nbformat';
import { KernelMessage } from '@jupyterlab/services';
import { IKernelOutputs, IKernelRequest } from '../api.generated';

/** A recorded message, in its shortest form. */
export type RecordedMessage = Omit<KernelMessage.IIOPubMessage, 'channel' | 'buffers'>;

/** One execute request and its outputs. */
export interface IRecordedRequest extends Pick<
  IKernelRequest,
  'msg_id' | 'session' | 'cell_id' | 'code' | 'state' | 'execution_count' | 'omitted_bytes'
> {
  readonly header: KernelMessage.IHeader<'execute_request'>;
  /** Null if they would make the response too large or too slow; they are requested separately. */
  readonly outputs: readonly nbformat.IOutput[] | null;
  /**
   * The messages that bring an empty output area to the request's state; null if they are too large, or the request is
   * finished.
   */
  readonly messages: readonly RecordedMessage[] | null;
  /** The prompt of an `input()` that waits for an answer. */
  readonly input: KernelMessage.IInputRequestMsg | null;
}

/** The last request of each cell, with everything recorded up to `seq` and nothing newer. */
export interface IOutputsAnswer extends Pick<IKernelOutputs, 'kernel_id' | 'seq'> {
  readonly requests: readonly IRecordedRequest[];
}

/** The positions of a message in the record; a merged message covers several. */
export interface ISpan {
  readonly first: number;
  readonly last: number;
}

export function isOver({ state }: Pick<IRecordedRequest, 'state'>): boolean {
  return state !== 'queued' && state !== 'running';
}

/** The position of a live message in the record; null for messages created by the server. */
export function spanOf({ metadata }: KernelMessage.IMessage): ISpan | null {
  const mark = (metadata as { jupyter_tpu?: { seq?: unknown; first_seq?: unknown } }).jupyter_tpu;
  if (typeof mark?.seq !== 'number') {
    return null;
  }
  return { first: typeof mark.first_seq === 'number' ? mark.first_seq : mark.seq, last: mark.seq };
}

/** The request that a message belongs to, or an empty string. */
export function parentOf({ parent_header }: KernelMessage.IMessage): string {
  return 'msg_id' in parent_header ? parent_header.msg_id : '';
}

export function displayIdOf({ content }: KernelMessage.IMessage): string {
  const { transient } = content as { transient?: { display_id?: unknown } };
  return typeof transient?.display_id === 'string' ? transient.display_id : '';
}

/** Outputs as a notebook saves them, without display ids. */
export function asSaved(outputs: readonly nbformat.IOutput[]): nbformat.IOutput[] {
  return outputs.map(withoutPlace);
}

function withoutPlace(output: nbformat.IOutput): nbformat.IOutput {
  const saved = { ...output };
  delete saved.transient;
  return saved;
}

/** Messages of a request, in their shortest form. */
export function messagesOf(request: IRecordedRequest): KernelMessage.IIOPubMessage[] {
  const { messages, outputs, header } = request;
  return messages?.length
    ? messages.map(message => publish(message))
    : (outputs ?? []).map(({ output_type, ...content }) =>
        publish({ header: { ...header, msg_type: output_type }, parent_header: header, content })
      );
}

/** A message as if it came from the kernel. */
export function publish(message: object): KernelMessage.IIOPubMessage {
  return {
    metadata: {},
    ...message,
    channel: 'iopub',
    buffers: []
  } as unknown as KernelMessage.IIOPubMessage;
}

/** The notebook output that a message shows. */
export function outputOf({ header, content }: KernelMessage.IIOPubMessage): nbformat.IOutput {
  return withoutPlace({ output_type: header.msg_type, ...content });
}
