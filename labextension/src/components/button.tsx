import React, { forwardRef } from 'react';

interface IProps extends React.ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: 'accept' | 'warn' | 'plain';
  /** Whether the button is inactive; unlike a disabled button, it keeps the keyboard focus. */
  isOff?: boolean;
}

/** A button of the panel; it submits a form only if `type` says so. */
export const Button = forwardRef<HTMLButtonElement, IProps>((props, ref) => {
  const { kind = 'plain', type = 'button', isOff = false, onClick, ...rest } = props;
  return (
    <button
      ref={ref}
      className={`jp-tpu-Button jp-mod-styled jp-mod-${kind}`}
      type={type}
      aria-disabled={isOff || undefined}
      onClick={isOff ? undefined : onClick}
      {...rest}
    />
  );
});
Button.displayName = 'Button';
