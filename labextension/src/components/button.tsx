import React, { forwardRef } from 'react';

interface IProps extends React.ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: 'accept' | 'warn' | 'plain';
  /** Whether the button does nothing; unlike a disabled button, it keeps the keyboard focus. */
  isOff?: boolean;
}

/** A button of the panel. It submits a form only if its `type` is `submit`. */
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
