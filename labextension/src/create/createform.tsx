import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useId, useRef, useState } from 'react';
import { INodeList, IOffers, Provisioning } from '../api.generated';
import { Button } from '../components/button';
import { Check } from '../components/field';
import { Problem } from '../components/problem';
import { scrollToCenter } from '../components/scroll';
import { useRequest } from '../components/userequest';
import { checkName, suggestName } from '../fleet';
import * as common from '../messages/common';
import * as messages from '../messages/create';
import { submitLabel } from '../messages/create';
import { problemOf } from '../request';
import { IFormRequest, INodeSpec, IOpenChoice, IProblem } from '../tokens';
import { useAnswer } from './answer';
import { Chips } from './chips';
import {
  choiceOf,
  hasUnknownPrice,
  ICreateActions,
  IWayDraft,
  nowTerms,
  queueTerms,
  runTime,
  searchTerms,
  WAY_DRAFT,
  wayOf
} from './draft';
import { More } from './more';
import {
  chipsRows,
  fitSpec,
  offerOf,
  suggestSpec,
  termsOf,
  withChips,
  withDefaults,
  withTerms
} from './offers';
import { OpenChoice, suggestOpen } from './openchoice';
import { Terms, Where } from './place';
import { Profiles, SaveProfile } from './profiles';
import { Exceeded } from './quotas';
import { Summary } from './summary';
import { ICreateMemory, INodeChoice, IProfile } from './tokens';
import { isMinutes, isPreemptible, Ways } from './ways';

/** What the form remembers and opens; each callback runs a command. */
export interface ICreateExtras {
  readonly memory: Pick<
    ICreateMemory,
    'lastChoice' | 'lastOpen' | 'profiles' | 'notebook' | 'example'
  >;
  readonly onRemember: (node_id: string, choice: INodeChoice, open: IOpenChoice) => void;
  /** The chosen zone; without one, a search finds it. */
  readonly onOpenWhenReady: (node_id: string, zone: string | null, open: IOpenChoice) => void;
  readonly onSaveProfile: (profile: IProfile) => void;
  readonly onDeleteProfile: (name: string) => void;
}

interface IProps {
  offers: IOffers;
  /** The existing nodes, whose names can't be used again. */
  list: INodeList | null;
  /** What to start with instead of the user's defaults, the last choice or the server's suggestion. */
  request?: IFormRequest | null;
  /** What the user has set for new nodes. */
  defaults?: Partial<INodeSpec>;
  /** The idle timeout that a new node gets, in seconds; 0 for the server's. */
  idleDefault_s?: number;
  trans: TranslationBundle;
  /** Search and queue, and the cost of a choice; absent where that plugin is disabled. */
  createActions?: ICreateActions;
  /** The last choice, profiles, and notebooks to open; absent where that plugin is disabled. */
  extras?: ICreateExtras;
  /** Resolves when the request is accepted, rejects with the error to show. */
  onCreate: (spec: INodeSpec) => Promise<void>;
  onCancel: () => void;
}

/** All that the user chooses in the form. */
interface IChosen {
  readonly spec: INodeSpec;
  readonly draft: IWayDraft;
  readonly open: IOpenChoice;
  /** Name of the profile that was chosen last. */
  readonly profile: string;
}

const OPEN_NOTHING: IOpenChoice = { kind: 'none', runsAll: false };

/** The form for a new node: chips, place and terms; shows the cost before anything is created. */
export function CreateForm(props: IProps): JSX.Element {
  const { offers, list, trans, createActions, extras, onCancel } = props;
  const heading = useId();
  const form = useRef<HTMLFormElement>(null);
  const [chosen, setChosen] = useState(() => startOf(props));
  const [isMore, setMore] = useState(false);
  const { isSending, problem, send } = useRequest();
  const { spec, draft, open } = chosen;
  const change = (part: Partial<INodeSpec>): void =>
    setChosen(old => ({ ...old, spec: fitSpec(offers, { ...old.spec, ...part }) }));
  const changeDraft = (part: Partial<IWayDraft>): void =>
    setChosen(old => ({ ...old, draft: { ...old.draft, ...part } }));
  useEffect(() => form.current?.querySelector<HTMLElement>('input')?.focus(), []);

  useEscape(form, onCancel);
  const choice = { ...spec, provisioning: termsOf(spec) };
  const coverage = useAnswer(choice, createActions?.coverage);
  const quota = useAnswer(choice, createActions?.quotaAfter);
  const offer = offerOf(offers, spec);
  const way = wayOf(spec, draft);
  const error = checkName(spec, list, trans);
  const isCovered = coverage.data?.covered ?? false;
  const isUnpriced = Boolean(createActions) && hasUnknownPrice(offers, spec, draft);
  const mustConsent = isUnpriced && !(isCovered && way !== 'search');
  const isConsented = !mustConsent || draft.acceptsUnknownPrice;
  const isTimed = termsOf(spec) !== 'flex-start' || runTime(draft) !== null;
  const isWhole = !error && isMinutes(draft.minutes) && isConsented && isTimed;

  if (Object.keys(offers.zones).length === 0) {
    return <NoOffers trans={trans} onCancel={onCancel} />;
  }
  return (
    <form
      ref={form}
      className="jp-tpu-Form jp-mod-sticky"
      aria-labelledby={heading}
      noValidate
      onSubmit={event => {
        event.preventDefault();
        if (isWhole) {
          send(() => submit(props, chosen));
        } else {
          setMore(true);
          // after the invalid field is shown
          window.requestAnimationFrame(() => focusFirstError(form.current));
        }
      }}
    >
      <h3 id={heading}>{common.createNode(trans)}</h3>
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
        onChange={zone => {
          changeDraft({ way: zone === null ? 'search' : way === 'search' ? 'now' : way });
          if (zone !== null) {
            change({ zone });
          } else if (termsOf(spec) === 'flex-start') {
            change(withTerms('on-demand'));
          }
        }}
      />
      <Terms
        offers={offers}
        spec={spec}
        way={way}
        canQueue={Boolean(createActions)}
        trans={trans}
        onChange={terms => chooseTerms(terms, way, change, changeDraft)}
      />
      {extras && (
        <OpenChoice
          open={open}
          memory={extras.memory}
          trans={trans}
          onChange={next => setChosen(old => ({ ...old, open: next }))}
        />
      )}
      <More
        offer={offer}
        spec={spec}
        nameError={error}
        canQueue={Boolean(createActions)}
        quota={createActions && quota}
        notCovered={coverage.data?.not_covered ?? []}
        isOpen={isMore}
        trans={trans}
        onToggle={setMore}
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
      <div className="jp-tpu-Form-foot">
        {offer && (
          <Summary
            provisioning={termsOf(spec)}
            idleDefault_s={props.idleDefault_s ?? 0}
            {...{ offer, coverage, trans }}
          />
        )}
        <Exceeded answer={quota} trans={trans} />
        {mustConsent && (
          <Check
            label={messages.acceptUnknownPrice(trans)}
            checked={draft.acceptsUnknownPrice}
            onChange={acceptsUnknownPrice => changeDraft({ acceptsUnknownPrice })}
          />
        )}
        {problem && <Problem problem={problem} trans={trans} />}
        <div className="jp-tpu-Actions jp-mod-end">
          <Button onClick={onCancel}>{common.cancel(trans)}</Button>
          <Button kind="accept" type="submit" disabled={isSending || !offer || !isConsented}>
            {submitLabel(way, isSending, trans)}
          </Button>
        </div>
      </div>
    </form>
  );
}

function NoOffers({ trans, onCancel }: Pick<IProps, 'trans' | 'onCancel'>): JSX.Element {
  return (
    <div className="jp-tpu-Empty" role="status">
      <p>{messages.noOffers(trans)}</p>
      <Button onClick={onCancel}>{common.cancel(trans)}</Button>
    </div>
  );
}

/** What the form starts with: a requested choice, else the user's defaults, the last choice, the server's suggestion.
 */ function startOf({ offers, list, request, defaults, extras, createActions }: IProps): IChosen {
  const usual = suggestSpec(offers, suggestName(list));
  const isRequested = Object.keys(request?.spec ?? {}).length > 0;
  const last = isRequested ? null : (extras?.memory.lastChoice ?? null);
  const own = isRequested ? {} : (defaults ?? {});
  const { way: lastWay, ...choice } = { way: WAY_DRAFT.way, ...last };
  // the last way (search or queue) belongs to the last choice, not to the settings' defaults
  const usualWay = Object.keys(own).length > 0 ? WAY_DRAFT.way : lastWay;
  const way = request?.way ?? usualWay;
  return {
    spec: withDefaults(offers, { ...usual, ...choice, ...request?.spec }, own),
    draft: { ...WAY_DRAFT, way: createActions ? way : 'now' },
    open: request?.open ?? (extras ? suggestOpen(extras.memory) : OPEN_NOTHING),
    profile: ''
  };
}

/** Options that the profile does not have are off again. */
function withProfile(offers: IOffers, old: IChosen, { name, choice }: IProfile): IChosen {
  const { way, ...place } = choice;
  const { node_id } = old.spec;
  return {
    ...old,
    spec: fitSpec(offers, { ...place, node_id }),
    draft: { ...old.draft, way },
    profile: name
  };
}

function chooseTerms(
  terms: Provisioning | 'queue',
  way: IWayDraft['way'],
  change: (part: Partial<INodeSpec>) => void,
  changeDraft: (part: Partial<IWayDraft>) => void
): void {
  if (terms === 'queue') {
    changeDraft({ way: 'queue' });
  } else {
    change(withTerms(terms));
    changeDraft({ way: way === 'queue' ? 'now' : way });
  }
}

/** Escape closes the form from any of its fields. */
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

/** The button may be far below the invalid field. */
function focusFirstError(form: HTMLElement | null): void {
  const control = form?.querySelector<HTMLElement>('[aria-invalid="true"]');
  control?.focus();
  // with its label and error
  scrollToCenter(control?.closest('.jp-tpu-Field'));
}

/** Create, search for or queue for the node, as chosen, and remember the choice and what to open on the node. */
async function submit(props: IProps, { spec, draft, open }: IChosen): Promise<void> {
  const { extras } = props;
  const zone = wayOf(spec, draft) === 'search' ? null : spec.zone;
  // first, because the answer may be lost even if the node is created
  extras?.onOpenWhenReady(spec.node_id, zone, open);
  try {
    await requestNode(props, spec, draft);
  } catch (error) {
    if (isRefusal(problemOf(error))) {
      extras?.onOpenWhenReady(spec.node_id, zone, OPEN_NOTHING);
    }
    throw error;
  }
  extras?.onRemember(spec.node_id, choiceOf(spec, draft), open);
}

/** Whether it is certain that nothing was created, because the server itself answered. */
function isRefusal({ code }: IProblem): boolean {
  return code !== 'server_unreachable' && !code.startsWith('http_5');
}

async function requestNode(props: IProps, spec: INodeSpec, draft: IWayDraft): Promise<void> {
  const { offers, createActions, onCreate, onCancel } = props;
  const way = wayOf(spec, draft);
  if (createActions && way === 'search') {
    await createActions.onSearch(searchTerms(offers, spec, draft));
    return onCancel();
  }
  if (createActions && way === 'queue') {
    await createActions.onQueue(queueTerms(spec, draft));
    return onCancel();
  }
  await onCreate(nowTerms(spec, draft));
  if (draft.recreate && isPreemptible(spec)) {
    createActions?.onRecover(spec);
  }
}
