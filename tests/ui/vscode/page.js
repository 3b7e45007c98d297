// A notebook as VS Code shows it: VS Code's own widget manager, and @jupyterlab/services as its way to the server.
// VS Code divides this between a process and the page; here all of it is in the page, on an origin of its own.
import {
  KernelManager,
  KernelSpecAPI,
  ServerConnection,
  SessionManager
} from '@jupyterlab/services';

const WIDGET = 'application/vnd.jupyter.widget-view+json';

class Notebook {
  // A kernel that runs for this path is taken up again.
  async open({ baseUrl, token, path, kernelName }) {
    const wsUrl = baseUrl.replace('http', 'ws');
    this._settings = ServerConnection.makeSettings({ baseUrl, wsUrl, token, appendToken: true });
    const kernelManager = new KernelManager({ serverSettings: this._settings });
    const sessions = new SessionManager({ kernelManager, serverSettings: this._settings });
    await sessions.ready;
    const running = await sessions.findByPath(path);
    const options = { path, name: path, type: 'notebook', kernel: { name: kernelName } };
    this._session = running
      ? sessions.connectTo({ model: running })
      : await sessions.startNew(options);
    this.kernel = this._session.kernel;
    this._known = new Set();
    this.kernel.iopubMessage.connect((_, message) => this._note(message));
    this.scripts = {};
    this._manager = new window.vscIPyWidgets.WidgetManager(
      this.kernel,
      document.body,
      loader(this),
      () => {}
    );
  }

  async kernelNames() {
    return Object.keys((await KernelSpecAPI.getSpecs(this._settings)).kernelspecs);
  }

  // What a program prints in the kernel, in no cell.
  async ask(code) {
    let text = '';
    const future = this.kernel.requestExecute({ code, store_history: false });
    future.onIOPub = ({ header, content }) => {
      text += header.msg_type === 'stream' ? content.text : '';
    };
    await future.done;
    return text;
  }

  // Runs a cell, and shows what it puts out.
  run(code) {
    const cell = addCell(code);
    const future = this.kernel.requestExecute({ code });
    future.onIOPub = message => this._hear(cell, message);
    return cell.id;
  }

  // Shows what a cell has put out in another page, of this kernel or of none.
  show(code, outputs) {
    const cell = addCell(code);
    outputs.forEach(data => this._show(cell, data));
    return cell.id;
  }

  _hear(cell, { header, content }) {
    if (header.msg_type === 'stream') {
      this._show(cell, { 'text/plain': content.text });
    } else if (header.msg_type === 'error') {
      this._show(cell, { 'text/plain': content.traceback.join('\n') });
    } else if (content.data && header.msg_type !== 'comm_open' && header.msg_type !== 'comm_msg') {
      this._show(cell, content.data);
    }
  }

  // The models that this kernel has told of; of any other, VS Code shows the next best form.
  _note({ header, content }) {
    if (header.msg_type === 'comm_open') {
      this._known.add(content.comm_id);
    }
  }

  _show(cell, data) {
    const place = document.createElement('div');
    place.className = 'output';
    place.data = data;
    cell.append(place);
    if (this._known.has(data[WIDGET]?.model_id)) {
      void this._showWidget(data[WIDGET].model_id, place);
    } else if (data['text/html']) {
      place.innerHTML = data['text/html'];
    } else {
      place.append(
        Object.assign(document.createElement('pre'), { textContent: data['text/plain'] })
      );
    }
  }

  async _showWidget(id, place) {
    place.classList.add('cell-output-ipywidget-background');
    const node = document.createElement('div');
    node.className = place.className;
    place.append(node);
    const view = await this._manager.create_view(await this._manager.get_model(id), { el: node });
    await this._manager.display_view({}, view, { node });
  }
}

function addCell(code) {
  const cell = document.createElement('section');
  cell.id = `cell-${document.querySelectorAll('section').length}`;
  cell.append(Object.assign(document.createElement('code'), { textContent: code }));
  document.body.append(cell);
  return cell;
}

// Tells requirejs where the front end of a package is, once a widget needs it.
function loader(notebook) {
  const known = new Set();
  return {
    widgetsRegisteredInRequireJs: known,
    loadWidgetScript: async name => {
      if (notebook.scripts[name]) {
        window.requirejs.config({ paths: { [name]: notebook.scripts[name] } });
        known.add(name);
      }
    },
    successHandler: () => {},
    errorHandler: () => {}
  };
}

window.notebook = new Notebook();
