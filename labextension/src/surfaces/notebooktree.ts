/** The file page of Notebook 7: the panel is a tab there, and its *New* menu creates nodes. */

import { JupyterFrontEnd } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { IMessageHandler, Message, MessageLoop } from '@lumino/messaging';
import { Menu, MenuBar, TabPanel, Widget } from '@lumino/widgets';
import { CommandIDs, ITpuModel, PANEL_ID } from '../tokens';

const NEW_MENU = 'jp-DropdownMenu';
/** A CSS class that lets long kernel names wrap in that menu. */
const WRAPS = 'jp-tpu-NewMenu';

/** Whether this is the file page of Notebook 7. */
export function isTreePage(): boolean {
  return PageConfig.getOption('notebookPage') === 'tree';
}

/**
 * Add a widget as a tab beside *Files* and *Running*.
 *
 *  The token for these tabs is in a package that JupyterLab does not have, so they are looked up in the shell.
 */
export function addTab({ shell }: JupyterFrontEnd, widget: Widget): void {
  const tabs = tabsOf(shell);
  if (tabs) {
    tabs.addWidget(widget);
  } else {
    shell.add(widget, 'left');
  }
}

/** Show the panel, wherever it is placed. */
export function showPanel(shell: JupyterFrontEnd.IShell): void {
  const tabs = isTreePage() ? tabsOf(shell) : undefined;
  const panel = tabs?.widgets.find(({ id }) => id === PANEL_ID);
  if (tabs && panel) {
    tabs.currentWidget = panel;
    panel.activate();
  } else {
    shell.activateById(PANEL_ID);
  }
}

/** Add an item to the *New* menu, which Notebook creates late and fills again whenever kernelspecs change. */
export function addToNewMenu({ shell, serviceManager }: JupyterFrontEnd): void {
  const add = (): boolean => {
    const menu = newMenuOf(shell);
    if (menu && !menu.hasClass(WRAPS)) {
      menu.addClass(WRAPS);
      MessageLoop.installMessageHook(menu, keepInWindow);
    }
    if (menu && !menu.items.some(({ command }) => command === CommandIDs.createNode)) {
      menu.addItem({ type: 'separator' });
      menu.addItem({ command: CommandIDs.createNode, args: { isNew: true } });
    }
    return menu !== undefined;
  };
  serviceManager.kernelspecs.specsChanged.connect(add);
  const page = tabsOf(shell)?.node;
  if (!add() && page) {
    const observer = new MutationObserver(() => add() && observer.disconnect());
    observer.observe(page, { childList: true, subtree: true });
  }
}

/**
 * Let a new notebook on a node open with that node's kernel.
 *
 *  Notebook creates it on this page, saves it and opens it in another tab, which learns the kernel only from the file.
 * Notebook stores the kernel once it has started, and on a node that takes longer than saving.
 */
export function keepKernelOfNewNotebooks(app: JupyterFrontEnd, nodes: ITpuModel): void {
  app.docRegistry.addWidgetExtension('Notebook', {
    createNew: ({ context }: NotebookPanel) => {
      const { sessionContext, model } = context;
      const name = sessionContext.kernelPreference.name ?? '';
      const spec = app.serviceManager.kernelspecs.specs?.kernelspecs[name];
      if (spec && nodes.list?.nodes.some(({ kernelspec }) => kernelspec === name)) {
        // only the other tab starts the kernel, so that there is only one
        sessionContext.kernelPreference = {
          ...sessionContext.kernelPreference,
          shouldStart: false
        };
        const { display_name, language } = spec;
        void context.ready.then(() =>
          model.setMetadata('kernelspec', { name, display_name, language })
        );
      }
    }
  });
}

/** Move an open menu into the window: a menu bar opens menus below their titles, however wide they are. */
function keepInWindow(menu: IMessageHandler, { type }: Message): boolean {
  const { node } = menu as Menu;
  // the menu is activated once it is in its place
  if (type === 'activate-request') {
    node.style.left = '';
    node.style.left = `${Math.min(0, window.innerWidth - node.getBoundingClientRect().right)}px`;
  }
  return true;
}

function tabsOf(shell: JupyterFrontEnd.IShell): TabPanel | undefined {
  return [...shell.widgets('main')].find((one): one is TabPanel => one instanceof TabPanel);
}

function newMenuOf(shell: JupyterFrontEnd.IShell): Menu | undefined {
  const bars = [...shell.widgets('main')].flatMap(descendants);
  const bar = bars.find((one): one is MenuBar => one instanceof MenuBar && one.hasClass(NEW_MENU));
  return bar?.menus[0];
}

function descendants(widget: Widget): Widget[] {
  return [widget, ...[...widget.children()].flatMap(descendants)];
}
