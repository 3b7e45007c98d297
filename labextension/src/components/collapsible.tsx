import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React, { useEffect, useId, useRef } from 'react';
import { scrollToCenter } from './scroll';

interface IProps {
  title: string;
  /** The accessible name, if several sections have the same title. */
  label?: string;
  /** Text next to the title, visible even if the part is collapsed. */
  summary?: string;
  isWarning?: boolean;
  isOpen: boolean;
  /** Moves the keyboard focus to the title when it increases. */
  revealTurn?: number;
  onToggle: () => void;
  children: React.ReactNode;
}

/** A part of the panel that can be collapsed. */
export function Collapsible(props: IProps): JSX.Element {
  const { title, label, summary, isWarning, isOpen, onToggle, children } = props;
  const id = useId();
  const head = useRef<HTMLButtonElement>(null);
  const { revealTurn = 0 } = props;
  useEffect(() => {
    if (revealTurn > 0) {
      head.current?.focus();
      scrollToCenter(head.current);
    }
  }, [revealTurn]);
  const Caret = (isOpen ? caretDownIcon : caretRightIcon).react;
  return (
    <section
      className="jp-tpu-Section"
      aria-label={label}
      aria-labelledby={label === undefined ? id : undefined}
    >
      <h3>
        <button
          ref={head}
          type="button"
          className="jp-tpu-Head jp-tpu-Section-head"
          aria-expanded={isOpen}
          aria-controls={isOpen ? `${id}-body` : undefined}
          onClick={onToggle}
        >
          <Caret tag="span" className="jp-tpu-Section-caret" aria-hidden="true" />
          <span id={id}>{title}</span>
          {summary && (
            <span className={`jp-tpu-Section-summary${isWarning ? ' jp-mod-warning' : ''}`}>
              {summary}
            </span>
          )}
        </button>
      </h3>
      {isOpen && (
        <div id={`${id}-body`} className="jp-tpu-Section-body">
          {children}
        </div>
      )}
    </section>
  );
}
