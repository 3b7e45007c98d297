// What VS Code does with @jupyterlab/services when its window is reloaded while a cell runs: it forgets everything but
// the kernel and the msg_id of the cell, connects again as a new session, and takes the cell up with the first message
// that belongs to it.
const { createRequire } = require('module');
const { writeFileSync } = require('fs');

const [packages, baseUrl, token, kernelName, gate, code] = process.argv.slice(2);
const load = createRequire(packages);
const { KernelManager, ServerConnection, SessionManager } = load('@jupyterlab/services');

const serverSettings = ServerConnection.makeSettings({
  baseUrl,
  wsUrl: baseUrl.replace('http', 'ws'),
  token,
  appendToken: true,
  WebSocket: load('ws')
});

function managers() {
  const kernelManager = new KernelManager({ serverSettings });
  return { kernelManager, sessionManager: new SessionManager({ kernelManager, serverSettings }) };
}

async function beforeTheReload() {
  const { kernelManager, sessionManager } = managers();
  const session = await sessionManager.startNew({
    path: 'reload.ipynb',
    name: 'reload.ipynb',
    type: 'notebook',
    kernel: { name: kernelName }
  });
  const future = session.kernel.requestExecute({ code });
  await new Promise(resolve => {
    let text = '';
    future.onIOPub = message => {
      text += message.header.msg_type === 'stream' ? message.content.text : '';
      if (text.endsWith('line 49\n')) {
        resolve();
      }
    };
  });
  const remembered = { sessionId: session.id, msgId: future.msg.header.msg_id };
  session.dispose();
  sessionManager.dispose();
  kernelManager.dispose();
  return remembered;
}

async function afterTheReload({ sessionId, msgId }) {
  const { kernelManager, sessionManager } = managers();
  const model = await sessionManager.findById(sessionId);
  const session = sessionManager.connectTo({ model });
  const resumed = { text: '', kinds: [], statusWhileBusy: null };
  await new Promise(resolve => {
    session.kernel.iopubMessage.connect((_, message) => {
      if (message.parent_header.msg_id !== msgId) {
        return;
      }
      const kind = message.header.msg_type;
      resumed.kinds.push(kind);
      if (kind === 'clear_output') {
        resumed.text = '';
        resumed.statusWhileBusy = session.kernel.status;
        writeFileSync(gate, '');
      }
      resumed.text += kind === 'stream' ? message.content.text : '';
      if (kind === 'status' && message.content.execution_state === 'idle') {
        resolve();
      }
    });
  });
  await session.shutdown();
  session.dispose();
  sessionManager.dispose();
  kernelManager.dispose();
  return resumed;
}

beforeTheReload()
  .then(afterTheReload)
  .then(resumed => {
    process.stdout.write(`\n${JSON.stringify(resumed)}`, () => process.exit(0));
  });
