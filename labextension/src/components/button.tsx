import React from 'react';

interface IProps extends React.ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: 'accept' | 'warn' | 'plain';
  /** It does nothing now, and keeps the keyboard's focus, unlike a disabled one. */
  isOff?: boolean;
}

/** A button of the panel; it submits a form only where `type` says so. */
export function Button(props: IProps): JSX.Element {
  const { kind = 'plain', type = 'button', isOff = false, onClick, ...rest } = props;
  return (
    <button
      className={`jp-tpu-Button jp-mod-styled jp-mod-${kind}`}
      type={type}
      aria-disabled={isOff || undefined}
      onClick={isOff ? undefined : onClick}
      {...rest}
    />
  );
}
