/** A line above a notebook that can appear and disappear; its height fits its text. */

import { ReactWidget } from '@jupyterlab/ui-components';
import React, { useEffect, useRef } from 'react';

export abstract class NotebookBanner extends ReactWidget {
  constructor() {
    super();
    this.addClass('jp-tpu-LineAbove');
  }

  /** Set the height: Lumino gives a header its requested height, and a wrapped line needs more. */
  protected readonly setHeight = (height: number): void => {
    this.node.style.minHeight = `${height}px`;
    this.parent?.fit();
  };
}

interface IProps extends React.HTMLAttributes<HTMLDivElement> {
  /** Called with the line's height when it changes; 0 when the line is removed. */
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
