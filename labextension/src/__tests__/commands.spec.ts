import { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { addCommands } from '../commands';
import { TpuModel } from '../model';
import { TpuClient } from '../request';
import { CommandIDs } from '../tokens';
import { list, node, OFFERS, trans } from './fixtures';
import { reply, Server } from './server';

const KEY = { zone: 'us-central1-a', node_id: 'a' };
const SPEC = 'tpu-a-us-central1-a';
const STATUS = { project: 'demo-project', endpoint: '', emulated: false, version: '', error: null };

/** What the commands use of JupyterLab, and what they did to it. */
class Lab {
  readonly commands = new CommandRegistry();
  readonly shown: string[] = [];
  specsAsked = 0;

  readonly shell = { activateById: (id: string) => this.shown.push(id) };

  readonly serviceManager = {
    kernelspecs: { specs: null, refreshSpecs: () => Promise.resolve(this.specsAsked++) }
  };
}

describe('commands', () => {
  let server: Server;
  let model: TpuModel;
  let lab: Lab;

  beforeEach(async () => {
    server = new Server();
    server.answers['GET status'] = () => reply(STATUS);
    server.answers['GET nodes'] = () => reply(list({ nodes: [node('a')] }));
    server.answers['GET offers'] = () => reply(OFFERS);
    model = new TpuModel(new TpuClient(server.settings));
    lab = new Lab();
    addCommands({ app: lab as unknown as JupyterFrontEnd, model, trans, tracker: null });
    const listed = new Promise<void>(resolve => {
      model.stateChanged.connect(() => model.list && resolve());
    });
    model.start();
    await listed;
  });

  afterEach(() => model.dispose());

  function asked(method: string): string[] {
    return server.asked.filter(one => one.method === method).map(one => one.route);
  }

  /** Click a button of the dialog that comes up, once its question can be read; answers the question. */
  async function answer(label: string): Promise<string> {
    for (;;) {
      const buttons = [...document.querySelectorAll<HTMLElement>('.jp-Dialog button')];
      const button = buttons.find(one => one.textContent === label);
      const question = document.querySelector('.jp-Dialog .jp-Dialog-body')?.textContent;
      if (button && question) {
        button.click();
        return question;
      }
      await new Promise(requestAnimationFrame);
    }
  }

  it('each have a label and say what arguments they take', async () => {
    for (const id of Object.values(CommandIDs)) {
      expect(lab.commands.label(id)).not.toBe('');
      expect((await lab.commands.describedBy(id)).args).toMatchObject({ type: 'object' });
    }
  });

  it('open the form when it is not said what to create', async () => {
    await lab.commands.execute(CommandIDs.createNode);
    expect(model.isFormOpen).toBe(true);
    expect(lab.shown).toEqual(['jupyter-tpu-panel']);
    expect(asked('POST')).toEqual([]);
  });

  it('open the form with the choice that an error suggests', async () => {
    const args = { way: 'search', zone: 'us-east1-d', node_id: 'b', provisioning: 'spot' };
    await lab.commands.execute(CommandIDs.openForm, args);
    expect(model.isFormOpen).toBe(true);
    expect(lab.shown).toEqual(['jupyter-tpu-panel']);
    expect(model.formRequest).toMatchObject({
      way: 'search',
      spec: { zone: 'us-east1-d', node_id: 'b', provisioning: 'spot', spot: true }
    });
    expect(asked('POST')).toEqual([]);
    await lab.commands.execute(CommandIDs.createNode);
    expect(model.formRequest).toBeNull();
  });

  it('open pages of the console in another tab', async () => {
    const open = jest.spyOn(window, 'open').mockReturnValue(null);
    await lab.commands.execute(CommandIDs.openConsole, { page: 'api', project: 'p', service: '' });
    expect(open).toHaveBeenCalledWith(
      'https://console.cloud.google.com/apis/library/tpu.googleapis.com?project=p',
      '_blank',
      'noopener'
    );
    open.mockRestore();
  });

  it('create what is said', async () => {
    server.answers['POST nodes'] = () => reply({}, 202);
    const spec = { ...OFFERS.default, node_id: 'b', spot: false };
    await lab.commands.execute(CommandIDs.createNode, spec);
    expect(asked('POST')).toEqual(['nodes']);
  });

  it('delete nothing unless the user agrees', async () => {
    const deleted = lab.commands.execute(CommandIDs.deleteNode, KEY);
    expect(await answer('Cancel')).toContain('$9.60 per hour');
    await deleted;
    expect(asked('DELETE')).toEqual([]);
  });

  it('delete a node after asking; its notebooks show the end of their kernels', async () => {
    server.answers['DELETE nodes/us-central1-a/a'] = () => reply({}, 202);
    const deleted = lab.commands.execute(CommandIDs.deleteNode, KEY);
    await answer('Delete');
    await deleted;
    expect(asked('DELETE')).toEqual(['nodes/us-central1-a/a']);
  });

  it('stop a node after asking', async () => {
    server.answers['POST nodes/us-central1-a/a/stop'] = () => reply({}, 202);
    const stopped = lab.commands.execute(CommandIDs.stopNode, KEY);
    expect(await answer('Stop')).toContain('Its disk is kept');
    await stopped;
    expect(asked('POST')).toEqual(['nodes/us-central1-a/a/stop']);
  });

  it('open a notebook with the kernelspec of the node, asking for specs that are not known yet', async () => {
    const opened: unknown[] = [];
    lab.commands.addCommand('notebook:create-new', { execute: args => opened.push(args) });
    await lab.commands.execute(CommandIDs.openNotebook, KEY);
    expect(opened).toEqual([{ kernelName: SPEC }]);
    expect(lab.specsAsked).toBe(1);
  });

  it('open a notebook with the kernelspec of a node that became ready after the last list', async () => {
    const opened: unknown[] = [];
    lab.commands.addCommand('notebook:create-new', { execute: args => opened.push(args) });
    const listed = new Promise<void>(resolve => {
      model.stateChanged.connect(() => model.list?.nodes[0].kernelspec === null && resolve());
    });
    const unprepared = list({ nodes: [node('a', { kernelspec: null })] });
    server.answers['GET nodes'] = () => reply(unprepared);
    server.answers['POST refresh'] = () => reply(unprepared);
    void model.refresh();
    await listed;
    await expect(lab.commands.execute(CommandIDs.openNotebook, KEY)).rejects.toThrow(
      "The kernel isn't ready yet."
    );
    server.answers['POST refresh'] = () => reply(list({ nodes: [node('a')] }));
    await lab.commands.execute(CommandIDs.openNotebook, KEY);
    expect(opened).toEqual([{ kernelName: SPEC }]);
  });

  it('cannot be used where there are no notebooks', () => {
    expect(lab.commands.isEnabled(CommandIDs.openNotebook)).toBe(false);
    expect(lab.commands.isEnabled(CommandIDs.switchKernel)).toBe(false);
  });

  it('are off where no node allows them, and say when that changes', async () => {
    const isOn = (args: object = {}): boolean =>
      lab.commands.isEnabled(CommandIDs.startNode, { ...args });
    expect(lab.commands.isEnabled(CommandIDs.stopNode, { isMenu: true })).toBe(true);
    expect(isOn({ isMenu: true })).toBe(false);
    expect(isOn(KEY)).toBe(true);
    const changed: (string | undefined)[] = [];
    lab.commands.commandChanged.connect((_, { id }) => changed.push(id));
    server.answers['GET nodes'] = () => reply(list({ nodes: [node('a', { state: 'STOPPED' })] }));
    const stopped = new Promise<void>(resolve => {
      model.stateChanged.connect(() => model.list?.nodes[0].state === 'STOPPED' && resolve());
    });
    void model.refresh();
    await stopped;
    expect(isOn()).toBe(true);
    expect(changed).toContain(CommandIDs.startNode);
  });

  it('open the card of a node with the panel', async () => {
    await lab.commands.execute(CommandIDs.openPanel, KEY);
    await lab.commands.execute(CommandIDs.openPanel, KEY);
    expect([...model.openCards]).toEqual(['us-central1-a/a']);
  });

  it('let the user choose a node where none is named', async () => {
    server.answers['POST nodes/us-central1-a/a/stop'] = () => reply({}, 202);
    const stopped = lab.commands.execute(CommandIDs.stopNode);
    expect(await answer('Ok')).toContain('a in us-central1-a');
    await answer('Stop');
    await stopped;
    expect(asked('POST')).toEqual(['nodes/us-central1-a/a/stop']);
  });

  it('do nothing to a node that is gone', async () => {
    await lab.commands.execute(CommandIDs.deleteNode, { ...KEY, node_id: 'gone' });
    expect(asked('DELETE')).toEqual([]);
  });
});
