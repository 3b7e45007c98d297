import { HTMLSelect } from '@jupyterlab/ui-components';
import React, { useId } from 'react';

interface IFieldProps {
  label: string;
  /** An explanation of the chosen value. */
  note?: string;
  /** Why the value is invalid. */
  error?: string;
  /** Renders the control with the attributes that connect it to its label and texts. */
  children: (attributes: React.AriaAttributes & { id: string }) => JSX.Element;
}

/** A labelled form control, with its note or error below it. */
export function Field({ label, note, error, children }: IFieldProps): JSX.Element {
  const id = useId();
  const text = error || note;
  const described = text ? { 'aria-describedby': `${id}-text` } : {};
  return (
    <div className="jp-tpu-Field">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-invalid': Boolean(error), ...described })}
      {text && (
        <div id={`${id}-text`} className={error ? 'jp-tpu-Complaint' : 'jp-tpu-Muted'}>
          {text}
        </div>
      )}
    </div>
  );
}

interface ISelectProps {
  label: string;
  note?: string;
  value: string;
  onChange: (value: string) => void;
  /** The options. */
  children: React.ReactNode;
}

/** A labelled drop-down list. */
export function Select({ label, note, value, onChange, children }: ISelectProps): JSX.Element {
  return (
    <Field label={label} note={note}>
      {attributes => (
        <HTMLSelect
          value={value}
          title={value}
          onChange={event => onChange(event.target.value)}
          {...attributes}
        >
          {children}
        </HTMLSelect>
      )}
    </Field>
  );
}

interface ICheckProps {
  label: string;
  /** An explanation of the choice. */
  note?: string;
  checked: boolean;
  isDisabled?: boolean;
  onChange: (checked: boolean) => void;
}

/** A labelled checkbox. */
export function Check({ label, note, checked, isDisabled, onChange }: ICheckProps): JSX.Element {
  const id = useId();
  return (
    <div className="jp-tpu-Check">
      <input
        id={id}
        type="checkbox"
        checked={checked}
        disabled={isDisabled}
        aria-describedby={note && `${id}-text`}
        onChange={event => onChange(event.target.checked)}
      />
      <div>
        <label htmlFor={id}>{label}</label>
        {note && (
          <div id={`${id}-text`} className="jp-tpu-Muted">
            {note}
          </div>
        )}
      </div>
    </div>
  );
}

/** Values as options. */
export function options(values: readonly string[]): JSX.Element[] {
  return values.map(value => (
    <option key={value} value={value}>
      {value}
    </option>
  ));
}

export interface ITextFieldProps {
  label: string;
  type?: string;
  value: string;
  error?: string;
  note?: string;
  onChange: (value: string) => void;
}

/** A labelled text field. */
export function TextField({
  label,
  type,
  value,
  error,
  note,
  onChange
}: ITextFieldProps): JSX.Element {
  return (
    <Field label={label} error={error} note={note}>
      {attributes => (
        <input
          className="jp-mod-styled"
          type={type ?? 'text'}
          autoComplete="off"
          spellCheck={false}
          value={value}
          onChange={event => onChange(event.target.value)}
          {...attributes}
        />
      )}
    </Field>
  );
}
