import React from 'react';

interface IProps extends React.ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: 'accept' | 'warn' | 'plain';
}

/** A button of the panel; it submits a form only where `type` says so. */
export function Button({ kind = 'plain', type = 'button', ...rest }: IProps): JSX.Element {
  const className = `jp-tpu-Button jp-mod-styled jp-mod-${kind}`;
  return <button className={className} type={type} {...rest} />;
}
