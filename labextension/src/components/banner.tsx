/** A line above a notebook that comes and goes, and takes as much room as its text needs. */

import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useEffect, useRef } from 'react';

export abstract class NotebookBanner extends ReactWidget {
  constructor() {
    super();
    this.addClass('jp-tpu-LineAbove');
  }

  /** Lumino gives a header as much room as it asks for, and a line that wraps needs more. */
  protected readonly setHeight = (height: number): void => {
    this.node.style.minHeight = `${height}px`;
    this.parent?.fit();
  };
}

interface IProps extends React.HTMLAttributes<HTMLDivElement> {
  /** Told how high the line is as long as it is there. */
  onHeight: (height: number) => void;
}

export function Banner({ onHeight, ...attributes }: IProps): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const observer = new ResizeObserver(() => onHeight(element.current?.offsetHeight ?? 0));
    if (element.current) {
      observer.observe(element.current);
    }
    return () => {
      observer.disconnect();
      onHeight(0);
    };
  }, [onHeight]);
  return <div {...attributes} ref={element} className="jp-tpu-LineAbove-line" />;
}
