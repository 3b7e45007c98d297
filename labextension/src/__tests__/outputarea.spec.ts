/**
 * The examples of tests/outputs/lab_examples.json, by which the server's reducer is tested, are what JupyterLab does.
 */
import { OutputArea, OutputAreaModel } from '@jupyterlab/outputarea';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { KernelMessage } from '@jupyterlab/services';

interface IMessage {
  msg_type: string;
  content: { transient?: { display_id?: string } };
}

interface IExample {
  name: string;
  messages: IMessage[];
  outputs: unknown[];
}

const EXAMPLES = jest.requireActual<IExample[]>('../../../tests/outputs/lab_examples.json');

/** What an output area wants of a future. */
class ExampleFuture {
  onIOPub: (message: KernelMessage.IIOPubMessage) => void = () => undefined;
  done = new Promise(() => undefined);

  /** As the kernel connection does it: a display of a known name is an update of the earlier ones first. */
  feed(message: IMessage, names: Set<string>): void {
    const name = message.content.transient?.display_id;
    if (name && message.msg_type === 'display_data') {
      if (names.has(name)) {
        this._give({ ...message, msg_type: 'update_display_data' });
      }
      names.add(name);
    }
    this._give(message);
  }

  private _give(message: IMessage): void {
    const header = { msg_type: message.msg_type };
    this.onIOPub({ header, content: message.content } as unknown as KernelMessage.IIOPubMessage);
  }
}

function shown(messages: IMessage[]): unknown[] {
  const model = new OutputAreaModel();
  const rendermime = new RenderMimeRegistry({ initialFactories: standardRendererFactories });
  const area = new OutputArea({ model, rendermime });
  const future = new ExampleFuture();
  area.future = future as unknown as OutputArea['future'];
  const names = new Set<string>();
  messages.forEach(message => future.feed(message, names));
  return model.toJSON();
}

it.each(EXAMPLES.map(example => [example.name, example] as const))('%s', (_name, example) => {
  expect(shown(example.messages)).toEqual(example.outputs);
});
