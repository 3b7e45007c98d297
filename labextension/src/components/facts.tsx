import React from 'react';

interface IProps {
  /** Empty ones are left out. */
  facts: readonly string[];
  className?: string;
}

/** Facts with separators between them, which never begin or end a line. */
export function Facts({ facts, className = '' }: IProps): JSX.Element {
  return (
    <span className={`jp-tpu-Facts ${className}`}>
      {facts.filter(Boolean).map((fact, index) => (
        <span key={index}>
          {index > 0 && <i> · </i>}
          {fact}
        </span>
      ))}
    </span>
  );
}
