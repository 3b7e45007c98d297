import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React, { useId } from 'react';

interface IProps {
  title: string;
  /** The accessible name, if several sections have the same title. */
  label?: string;
  /** Shown next to the title, open or closed. */
  summary?: string;
  isWarning?: boolean;
  isOpen: boolean;
  onToggle: () => void;
  children: React.ReactNode;
}

/** A part of the panel that can be collapsed. */
export function Collapsible(props: IProps): JSX.Element {
  const { title, label, summary, isWarning, isOpen, onToggle, children } = props;
  const id = useId();
  const Caret = (isOpen ? caretDownIcon : caretRightIcon).react;
  return (
    <section
      className="jp-tpu-Section"
      aria-label={label}
      aria-labelledby={label === undefined ? id : undefined}
    >
      <h3>
        <button
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
