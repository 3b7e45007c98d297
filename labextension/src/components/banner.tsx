/** A line above a notebook that comes and goes, as high as its text needs. */

import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useEffect, useRef } from 'react';

export abstract class NotebookBanner extends ReactWidget {
  constructor() {
    super();
    this.addClass('jp-tpu-LineAbove');
  }

  /** Lumino gives a header the height it asks for, and a line that wraps needs more. */
  protected readonly setHeight = (height: number): void => {
    this.node.style.minHeight = `${height}px`;
    this.parent?.fit();
  };
}

interface IProps extends React.HTMLAttributes<HTMLDivElement> {
  /** Called with the height of the line whenever it changes; 0 when the line is removed. */
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
