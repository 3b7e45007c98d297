import React, { useEffect, useId, useRef, useState } from 'react';
import { Button } from '../components/button';
import { Check } from '../components/field';
import { Problem } from '../components/problem';
import { scrollToCenter } from '../components/scroll';
import { useRequest } from '../components/userequest';
import * as common from '../messages/common';
import * as messages from '../messages/create';
import { submitLabel } from '../messages/create';
import { messageOf } from '../messages/problems';
import { IProblem } from '../tokens';
import { Chips } from './chips';
import {
  chooseTerms,
  chooseZone,
  IChecks,
  IChoosing,
  ICreateFormProps,
  submit,
  useChecks,
  useChosen,
  withProfile
} from './chosen';
import { choiceOf, wayOf } from './draft';
import { More } from './more';
import { chipsRows, offerOf, termsOf, withChips } from './offers';
import { OpenChoice } from './openchoice';
import { Terms, Where } from './place';
import { Profiles, SaveProfile } from './profiles';
import { Exceeded } from './quotas';
import { Summary } from './summary';
import { Ways } from './ways';

/** The form for a new node: chips, place and terms. It shows the cost before anything is created. */
export function CreateForm(props: ICreateFormProps): JSX.Element {
  const { offers, trans, onCancel } = props;
  const heading = useId();
  const form = useRef<HTMLFormElement>(null);
  const [isMore, setMore] = useState(false);
  const { isSending, problem, send } = useRequest();
  const state = useChosen(props);
  const checks = useChecks(props, state.chosen);
  useEffect(() => {
    form.current?.querySelector<HTMLElement>('input')?.focus();
    // the first steps above the form may be long
    scrollToCenter(form.current?.querySelector('h3'));
  }, []);
  useEscape(form, onCancel);

  if (Object.keys(offers.zones).length === 0) {
    return <NoOffers trans={trans} onCancel={onCancel} />;
  }
  const onSubmit = (): void => {
    if (checks.isWhole) {
      send(() => submit(props, state.chosen));
    } else {
      setMore(true);
      // after the invalid field has been rendered
      window.requestAnimationFrame(() => focusFirstError(form.current));
    }
  };
  const parts = { ...props, ...state, ...checks };
  return (
    <form
      ref={form}
      className="jp-tpu-Form jp-mod-sticky"
      aria-labelledby={heading}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (!props.blocked) {
          onSubmit();
        }
      }}
    >
      <h3 id={heading}>{common.createNode(trans)}</h3>
      <Rows {...parts} />
      <MoreRows {...parts} isMore={isMore} setMore={setMore} />
      <Foot {...parts} isSending={isSending} problem={problem} />
    </form>
  );
}

type IPartProps = ICreateFormProps & IChoosing & IChecks;

/** The fields that every user needs: a profile or chips, place and terms, and what to open on the node. */
function Rows(props: IPartProps): JSX.Element {
  const { offers, list, trans, createActions, extras } = props;
  const { chosen, setChosen, change } = props;
  const { spec, draft, open } = chosen;
  const way = wayOf(spec, draft);
  return (
    <>
      {extras && extras.memory.profiles.length > 0 && (
        <Profiles
          profiles={extras.memory.profiles}
          chosen={chosen.profile}
          trans={trans}
          onChoose={profile => setChosen(old => withProfile(offers, old, profile))}
          onDelete={extras.onDeleteProfile}
        />
      )}
      <Chips
        rows={chipsRows(offers, spec)}
        spec={spec}
        trans={trans}
        onChoose={row => change(withChips(offers, spec, row))}
      />
      <Where
        offers={offers}
        spec={spec}
        way={way}
        unreachable={list?.unreachable ?? []}
        canSearch={Boolean(createActions)}
        trans={trans}
        onChange={zone => chooseZone(zone, way, props)}
      />
      <Terms
        offers={offers}
        spec={spec}
        way={way}
        canQueue={Boolean(createActions)}
        trans={trans}
        onChange={terms => chooseTerms(terms, way, props)}
      />
      {extras && (
        <OpenChoice
          open={open}
          memory={extras.memory}
          trans={trans}
          onChange={next => setChosen(old => ({ ...old, open: next }))}
        />
      )}
    </>
  );
}

interface IMoreProps {
  readonly isMore: boolean;
  readonly setMore: (isOpen: boolean) => void;
}

/** Fields that are rarely changed, folded. */
function MoreRows(props: IPartProps & IMoreProps): JSX.Element {
  const { offers, trans, createActions, extras } = props;
  const { chosen, setChosen, change, changeDraft, coverage, quota, nameError } = props;
  const { spec, draft } = chosen;
  return (
    <More
      offer={offerOf(offers, spec)}
      spec={spec}
      nameError={nameError}
      canQueue={Boolean(createActions)}
      quota={createActions && quota}
      notCovered={coverage.data?.not_covered ?? []}
      isOpen={props.isMore}
      trans={trans}
      onToggle={props.setMore}
      onChange={change}
      onDraft={changeDraft}
    >
      <Ways offers={offers} spec={spec} draft={draft} trans={trans} onChange={changeDraft} />
      {extras && (
        <SaveProfile
          trans={trans}
          onSave={name => {
            extras.onSaveProfile({ name, choice: choiceOf(spec, draft) });
            setChosen(old => ({ ...old, profile: name }));
          }}
        />
      )}
    </More>
  );
}

interface IFootProps {
  readonly isSending: boolean;
  readonly problem: IProblem | null;
}

/** The visible end of the form: the node's cost, errors, and the button. Actions for errors are above the form. */
function Foot(props: IPartProps & IFootProps): JSX.Element {
  const { offers, trans, idleDefault_s = 0, onCancel, isSending, problem } = props;
  const { chosen, changeDraft, coverage, quota, unpriced, isConsented } = props;
  const { spec, draft } = chosen;
  const offer = offerOf(offers, spec);
  const canSubmit = !isSending && !props.blocked && offer !== undefined && isConsented;
  return (
    <div className="jp-tpu-Form-foot">
      {offer && (
        <Summary
          provisioning={termsOf(spec)}
          isBlocked={Boolean(props.blocked)}
          {...{ idleDefault_s, offer, coverage, trans }}
        />
      )}
      <Exceeded answer={quota} trans={trans} />
      {unpriced.length > 0 && (
        <Check
          label={messages.acceptUnknownPrice(
            wayOf(spec, draft) === 'search' ? unpriced : [],
            trans
          )}
          checked={draft.acceptsUnknownPrice}
          onChange={acceptsUnknownPrice => changeDraft({ acceptsUnknownPrice })}
        />
      )}
      {props.blocked && (
        <div className="jp-tpu-Complaint" role="alert">
          {messageOf(props.blocked, trans)}
        </div>
      )}
      {problem && <Problem problem={problem} trans={trans} />}
      <div className="jp-tpu-Actions jp-mod-end">
        <Button onClick={onCancel}>{common.cancel(trans)}</Button>
        <Button kind="accept" type="submit" disabled={!canSubmit}>
          {submitLabel(wayOf(spec, draft), isSending, trans)}
        </Button>
      </div>
    </div>
  );
}

function NoOffers({ trans, onCancel }: Pick<ICreateFormProps, 'trans' | 'onCancel'>): JSX.Element {
  return (
    <div className="jp-tpu-Empty" role="status">
      <p>{messages.noOffers(trans)}</p>
      <Button onClick={onCancel}>{common.cancel(trans)}</Button>
    </div>
  );
}

/** Let Escape close the form from any of its fields. */
function useEscape(form: React.RefObject<HTMLElement>, close: () => void): void {
  useEffect(() => {
    const element = form.current;
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        close();
      }
    };
    element?.addEventListener('keydown', onKey);
    return () => element?.removeEventListener('keydown', onKey);
  }, [form, close]);
}

/** Move the focus to the first invalid field, because it may be far from the button. */
function focusFirstError(form: HTMLElement | null): void {
  const control = form?.querySelector<HTMLElement>('[aria-invalid="true"]');
  control?.focus();
  // include the field's label and error
  scrollToCenter(control?.closest('.jp-tpu-Field'));
}
