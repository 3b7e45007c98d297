import { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, UseSignal } from '@jupyterlab/ui-components';
import React, { useEffect, useRef } from 'react';
import { INode, ITerminal } from '../api.generated';
import { IconButton } from '../components/iconbutton';
import { useIsVisible } from '../components/visibility';
import * as messages from '../messages/terminals';
import { clockTime } from '../money/moments';
import { INodeKey } from '../tokens';
import { INodeTerminals } from './tokens';

/** The interval of requests while an open card is visible. */
const INTERVAL_MS = 10_000;

/** Callbacks of the buttons on terminals; each runs a command. */
export interface ITerminalActions {
  onShow: (key: INodeKey, terminal: string) => void;
  onShutDown: (key: INodeKey, terminal: string) => void;
}

interface IProps {
  node: INode;
  terminals: INodeTerminals;
  actions: ITerminalActions;
  trans: TranslationBundle;
}

/** The open terminals of a node, with buttons to show and shut them down. */
export function TerminalList(props: IProps): JSX.Element {
  const { node, terminals } = props;
  const { zone, node_id } = node;
  const place = useRef<HTMLDivElement>(null);
  const isVisible = useIsVisible(place, true);
  useEffect(() => {
    if (!isVisible) {
      return;
    }
    const refresh = (): void => {
      if (!document.hidden) {
        void terminals.refresh({ zone, node_id });
      }
    };
    refresh();
    const timer = setInterval(refresh, INTERVAL_MS);
    return () => clearInterval(timer);
  }, [terminals, isVisible, zone, node_id]);
  return (
    <div ref={place} className="jp-tpu-Terminals">
      <UseSignal signal={terminals.changed}>{() => <Rows {...props} />}</UseSignal>
    </div>
  );
}

function Rows({ node, terminals, actions, trans }: IProps): JSX.Element | null {
  const open = terminals.of(node);
  return open.length === 0 ? null : (
    <ul className="jp-tpu-Kernels" aria-label={messages.terminalsOn(node.node_id, trans)}>
      {open.map(terminal => (
        <li key={terminal.name}>
          <button
            type="button"
            className="jp-tpu-Link"
            title={messages.showThis(trans)}
            onClick={() => actions.onShow(node, terminal.name)}
          >
            <bdi>{nameOf(terminal, trans)}</bdi>
          </button>
          <span className="jp-tpu-Muted">
            {terminal.started_at !== null && messages.since(clockTime(terminal.started_at), trans)}
          </span>
          <IconButton
            label={messages.shutDownThis(nameOf(terminal, trans), trans)}
            icon={closeIcon}
            onClick={() => actions.onShutDown(node, terminal.name)}
          />
        </li>
      ))}
    </ul>
  );
}

function nameOf({ command }: ITerminal, trans: TranslationBundle): string {
  return command ? messages.terminalWith(command, trans) : messages.terminal(trans);
}
