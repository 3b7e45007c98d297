import { TranslationBundle } from '@jupyterlab/translation';
import React, { useId, useState } from 'react';
import { IGrantMail, IGrantRow, INewGrant } from '../api.generated';
import { Button } from '../components/button';
import { Check, Field, Select, TextField } from '../components/field';
import { Problem } from '../components/problem';
import { useRequest } from '../components/userequest';
import * as common from '../messages/common';
import * as messages from '../messages/grants';
import { unusedName } from '../money/names';
import { errorText } from '../problemtext';
import { GrantRows } from './grantrows';

interface IProps {
  /** Names of the existing grants. */
  taken: readonly string[];
  trans: TranslationBundle;
  onParse: (text: string) => Promise<IGrantMail>;
  onSave: (name: string, terms: INewGrant) => Promise<void>;
  onClose: () => void;
}

interface IDraft {
  kind: INewGrant['kind'];
  name: string;
  rows: readonly IGrantRow[];
  starts_on: string;
  days: string;
  usd: string;
  /**
   * The number of lines of the email that could not be read, until the user accepts that their nodes count as billed.
   */
  unread: number;
}

type Change = (part: Partial<IDraft> | ((now: IDraft) => Partial<IDraft>)) => void;

/** The longest term: ten years, the server's limit. */
const MOST_DAYS = 3660;

const DRAFT: IDraft = {
  ...{ kind: 'trc', name: '', rows: [], starts_on: '', days: '', usd: '', unread: 0 }
};

/** The form of a grant. Start and term are proposed from the email, and saving the form confirms them. */
export function GrantForm({ taken, trans, onParse, onSave, onClose }: IProps): JSX.Element {
  const heading = useId();
  const [draft, setDraft] = useState<IDraft>({ ...DRAFT, name: unusedName('trc', taken) });
  const { isSending, problem, send } = useRequest();
  // Based on the current draft: the user may type while an email is being parsed.
  const change: Change = part =>
    setDraft(now => ({ ...now, ...(typeof part === 'function' ? part(now) : part) }));
  const terms = termsOf(draft);
  const missing = missingIn(draft);
  return (
    <form
      className="jp-tpu-Form jp-mod-inner"
      aria-labelledby={heading}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (terms && draft.name) {
          send(async () => {
            await onSave(draft.name, terms);
            onClose();
          });
        }
      }}
    >
      <h4 id={heading}>{messages.add(trans)}</h4>
      <Select
        label={messages.kind(trans)}
        value={draft.kind}
        onChange={kind => change({ kind: kind as IDraft['kind'], name: unusedName(kind, taken) })}
      >
        <option value="trc">{messages.trcGrant(trans)}</option>
        <option value="credit">{messages.credit(trans)}</option>
      </Select>
      {draft.kind === 'trc' ? (
        <Chips draft={draft} change={change} trans={trans} onParse={onParse} />
      ) : (
        <TextField
          label={messages.amountUsd(trans)}
          value={draft.usd}
          error={draft.usd && !isPositive(draft.usd) ? common.useNumberAboveZero(trans) : ''}
          onChange={usd => change({ usd })}
        />
      )}
      <TextField
        label={common.name(trans)}
        value={draft.name}
        error={taken.includes(draft.name) ? messages.replacesGrant(trans) : ''}
        onChange={name => change({ name })}
      />
      <div className="jp-tpu-Pair">
        <TextField
          label={messages.firstDay(trans)}
          type="date"
          value={draft.starts_on}
          onChange={starts_on => change({ starts_on })}
        />
        <TextField
          label={messages.days(trans)}
          value={draft.days}
          error={
            draft.days && !isDays(draft.days) ? common.useWholeNumberFrom(1, MOST_DAYS, trans) : ''
          }
          onChange={days => change({ days })}
        />
      </div>
      {problem && <Problem problem={problem} trans={trans} />}
      {missing && <div className="jp-tpu-Muted">{messages.missing(missing, trans)}</div>}
      <div className="jp-tpu-Actions jp-mod-end">
        <Button onClick={onClose}>{common.cancel(trans)}</Button>
        <Button kind="accept" type="submit" disabled={isSending || !terms || !draft.name}>
          {messages.save(trans)}
        </Button>
      </div>
    </form>
  );
}

interface IChipsProps extends Pick<IProps, 'onParse' | 'trans'> {
  draft: IDraft;
  change: Change;
}

/** The email, and the rows found in it or added manually. */
function Chips({ draft, change, trans, onParse }: IChipsProps): JSX.Element {
  const [mail, setMail] = useState('');
  const [parsed, setParsed] = useState<IGrantMail | null>(null);
  const { isSending, problem, send } = useRequest();
  const read = async (): Promise<void> => {
    const answer = await onParse(mail);
    setParsed(answer);
    change(now => ({
      rows: answer.rows,
      unread: answer.rows.length > 0 ? answer.problems.length : 0,
      // the term that the user typed stays, unless the email states one
      starts_on: now.starts_on || (answer.sent_on ?? ''),
      days: answer.days === null && now.days ? now.days : String(answer.proposed_days)
    }));
  };
  return (
    <>
      <Field label={messages.mail(trans)}>
        {attributes => (
          <textarea
            className="jp-mod-styled jp-tpu-Mail"
            rows={5}
            spellCheck={false}
            value={mail}
            onChange={event => setMail(event.target.value)}
            {...attributes}
          />
        )}
      </Field>
      <div className="jp-tpu-Actions">
        <Button isOff={isSending || !mail.trim()} onClick={() => send(read)}>
          {messages.readMail(trans)}
        </Button>
      </div>
      {problem && <Problem problem={problem} trans={trans} />}
      {parsed && (
        <div role="status">
          {messages.rowsRead(parsed.rows.length, trans)}
          {parsed.days === null && ` ${messages.noDays(parsed.proposed_days, trans)}`}
          {` ${parsed.sent_on ? messages.startProposed(trans) : messages.noStart(trans)}`}
          {parsed.notes?.map((one, index) => (
            <div key={index} className="jp-tpu-Muted">
              {errorText(one)}
            </div>
          ))}
          {parsed.problems.map((one, index) => (
            <div key={index} className="jp-tpu-Complaint">
              {errorText(one)}
            </div>
          ))}
          {parsed.rows.length > 0 && parsed.problems.length > 0 && (
            <Check
              label={messages.skipUnread(trans)}
              note={messages.unreadIsBilled(trans)}
              checked={draft.unread === 0}
              onChange={isSkipped => change({ unread: isSkipped ? 0 : parsed.problems.length })}
            />
          )}
        </div>
      )}
      <GrantRows rows={draft.rows} trans={trans} onChange={rows => change({ rows })} />
    </>
  );
}

/** The grant to save, or null while something is missing. */
function termsOf(draft: IDraft): INewGrant | null {
  const { kind, starts_on, rows, unread } = draft;
  if (!starts_on || !isDays(draft.days)) {
    return null;
  }
  const days = Number(draft.days);
  if (kind === 'trc') {
    return rows.length > 0 && unread === 0 ? { kind, starts_on, days, rows } : null;
  }
  return isPositive(draft.usd) ? { kind, starts_on, days, usd: Number(draft.usd) } : null;
}

/** The first missing part without which the grant cannot be saved. */
function missingIn(draft: IDraft): Parameters<typeof messages.missing>[0] | null {
  if (draft.kind === 'trc' ? draft.rows.length === 0 : !draft.usd) {
    return draft.kind === 'trc' ? 'rows' : 'amount';
  }
  if (!draft.starts_on || !draft.days) {
    return 'day';
  }
  return draft.name ? null : 'name';
}

function isDays(text: string): boolean {
  return /^[1-9]\d{0,3}$/.test(text.trim()) && Number(text) <= MOST_DAYS;
}

function isPositive(text: string): boolean {
  return text.trim() !== '' && Number(text) > 0 && Number.isFinite(Number(text));
}
