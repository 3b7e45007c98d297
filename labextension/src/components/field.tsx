import { HTMLSelect } from '@jupyterlab/ui-components';
import React, { useId } from 'react';

interface IFieldProps {
  label: string;
  /** Says more about the choice that is made. */
  note?: string;
  /** Why the value cannot be used. */
  complaint?: string;
  /** Gets the attributes that tie the control to its label, note and complaint. */
  children: (attributes: React.AriaAttributes & { id: string }) => JSX.Element;
}

/** A labelled control of a form, with what is to be said about it below. */
export function Field({ label, note, complaint, children }: IFieldProps): JSX.Element {
  const id = useId();
  const text = complaint || note;
  const described = text ? { 'aria-describedby': `${id}-text` } : {};
  return (
    <div className="jp-tpu-Field">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-invalid': Boolean(complaint), ...described })}
      {text && (
        <div id={`${id}-text`} className={complaint ? 'jp-tpu-Complaint' : 'jp-tpu-Muted'}>
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

/** A labelled choice. */
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
  /** Says more about what is chosen. */
  note?: string;
  checked: boolean;
  isDisabled?: boolean;
  onChange: (checked: boolean) => void;
}

/** A labelled box to tick. */
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

/** Values as options; text only. */
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
  complaint?: string;
  note?: string;
  onChange: (value: string) => void;
}

/** A labelled line of text. */
export function TextField({
  label,
  type,
  value,
  complaint,
  note,
  onChange
}: ITextFieldProps): JSX.Element {
  return (
    <Field label={label} complaint={complaint} note={note}>
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
