/** The state of the form for a new node: its initial values, changes, checks and request. */

import { TranslationBundle } from '@jupyterlab/translation';
import React, { useState } from 'react';
import { ICoverage, INodeList, IOffers, IQuotasAfter, Provisioning } from '../api.generated';
import { checkName, suggestName } from '../fleet';
import * as messages from '../messages/create';
import { problemOf } from '../request';
import { IFormRequest, INodeKey, INodeSpec, IOpenChoice, IProblem } from '../tokens';
import { IAnswer, useAnswer } from './answer';
import {
  choiceOf,
  ICreateActions,
  IWayDraft,
  nowTerms,
  queueTerms,
  runTime,
  searchTerms,
  unpricedZones,
  WAY_DRAFT,
  wayOf
} from './draft';
import { fitSpec, suggestSpec, termsOf, withDefaults, withTerms } from './offers';
import { suggestOpen } from './openchoice';
import { ICreateMemory, INodeChoice, IProfile } from './tokens';
import { isMinutes, isPreemptible } from './ways';

/** Data that the form remembers, and notebooks to open; each callback runs a command. */
export interface ICreateExtras {
  readonly memory: Pick<
    ICreateMemory,
    'lastChoice' | 'lastOpen' | 'profiles' | 'notebook' | 'example'
  >;
  readonly onRemember: (node_id: string, choice: INodeChoice, open: IOpenChoice | null) => void;
  /** The zone is null if a search determines it. */
  readonly onOpenWhenReady: (node_id: string, zone: string | null, open: IOpenChoice) => void;
  readonly onSaveProfile: (profile: IProfile) => void;
  readonly onDeleteProfile: (name: string) => void;
}

export interface ICreateFormProps {
  offers: IOffers;
  /** The existing nodes, whose names are not available. */
  list: INodeList | null;
  /** A choice to start with, in place of the user's defaults, the last choice or the server's suggestion. */
  request?: IFormRequest | null;
  /** The user's defaults for new nodes. */
  defaults?: Partial<INodeSpec>;
  /** The idle timeout of a new node, in seconds; 0 for the server's default. */
  idleDefault_s?: number;
  trans: TranslationBundle;
  /** Search, queue, and the cost of a choice; missing if that plugin is disabled. */
  createActions?: ICreateActions;
  /** The last choice, profiles, and notebooks to open; missing if that plugin is disabled. */
  extras?: ICreateExtras;
  /** Why no node can be created, for example because credentials are missing. */
  blocked?: IProblem | null;
  /** Resolves when the request is accepted; rejects with the error to show. */
  onCreate: (spec: INodeSpec) => Promise<void>;
  onCancel: () => void;
}

/** All choices that the user makes in the form. */
interface IChosen {
  readonly spec: INodeSpec;
  readonly draft: IWayDraft;
  readonly open: IOpenChoice;
  /** Name of the last chosen profile. */
  readonly profile: string;
}

const OPEN_NOTHING: IOpenChoice = { kind: 'none', runsAll: false };

/** The current choices, and functions that change them. */
export interface IChoosing {
  readonly chosen: IChosen;
  readonly setChosen: React.Dispatch<React.SetStateAction<IChosen>>;
  readonly change: (part: Partial<INodeSpec>) => void;
  readonly changeDraft: (part: Partial<IWayDraft>) => void;
}

export function useChosen(props: ICreateFormProps): IChoosing {
  const { offers } = props;
  const [chosen, setChosen] = useState(() => startOf(props));
  return {
    chosen,
    setChosen,
    change: part => setChosen(old => ({ ...old, spec: fitSpec(offers, { ...old.spec, ...part }) })),
    changeDraft: part => setChosen(old => ({ ...old, draft: { ...old.draft, ...part } }))
  };
}

/** The checks of a choice: its cost and quota usage, and its errors. */
export interface IChecks {
  readonly coverage: IAnswer<ICoverage>;
  readonly quota: IAnswer<IQuotasAfter>;
  readonly nameError: string;
  /** Zones without a known price or a covering grant; the user must accept them. */
  readonly unpriced: readonly string[];
  readonly isConsented: boolean;
  /** Whether the node can be requested. */
  readonly isWhole: boolean;
}

export function useChecks(
  { offers, list, trans, createActions }: ICreateFormProps,
  chosen: IChosen
): IChecks {
  const { spec, draft } = chosen;
  const choice = { ...spec, provisioning: termsOf(spec) };
  const coverage = useAnswer(choice, createActions?.coverage);
  const quota = useAnswer(choice, createActions?.quotaAfter);
  const nameError =
    checkName(spec, list, trans) || checkQueued(spec, draft, createActions?.queued() ?? [], trans);
  const isCovered = coverage.data?.covered ?? false;
  const isFree = isCovered && wayOf(spec, draft) !== 'search';
  const unpriced = createActions && !isFree ? unpricedZones(offers, spec, draft) : [];
  const isConsented = unpriced.length === 0 || draft.acceptsUnknownPrice;
  const isTimed = termsOf(spec) !== 'flex-start' || runTime(draft) !== null;
  const isWhole = !nameError && isMinutes(draft.minutes) && isConsented && isTimed;
  return { coverage, quota, nameError, unpriced, isConsented, isWhole };
}

/** Check the name against queued nodes: a search could create a node with the same name in the same zone. */
function checkQueued(
  spec: INodeSpec,
  draft: IWayDraft,
  queued: readonly INodeKey[],
  trans: TranslationBundle
): string {
  const isSearch = wayOf(spec, draft) === 'search';
  const same = queued.find(
    ({ zone, node_id }) => node_id === spec.node_id && (isSearch || zone === spec.zone)
  );
  return same ? messages.nameQueued(same.zone, trans) : '';
}

/** Return the initial choice: a requested choice, the user's defaults, the last choice or the server's suggestion. */
function startOf({
  offers,
  list,
  request,
  defaults,
  extras,
  createActions
}: ICreateFormProps): IChosen {
  const usual = suggestSpec(offers, suggestName(list, createActions?.queued()));
  const isRequested = Object.keys(request?.spec ?? {}).length > 0;
  const last = isRequested ? null : (extras?.memory.lastChoice ?? null);
  const own = isRequested ? {} : (defaults ?? {});
  const { way: lastWay, ...choice } = { way: WAY_DRAFT.way, ...last };
  // the last choice includes search or queue, but the settings' defaults do not
  const usualWay = Object.keys(own).length > 0 ? WAY_DRAFT.way : lastWay;
  const way = request?.way ?? usualWay;
  return {
    spec: withDefaults(offers, { ...usual, ...choice, ...request?.spec }, own),
    draft: { ...WAY_DRAFT, way: createActions ? way : 'now' },
    open: request?.open ?? (extras ? suggestOpen(extras.memory) : OPEN_NOTHING),
    profile: ''
  };
}

/** Apply a profile; options that it doesn't have are turned off. */
export function withProfile(offers: IOffers, old: IChosen, { name, choice }: IProfile): IChosen {
  const { way, ...place } = choice;
  const { node_id } = old.spec;
  return {
    ...old,
    spec: fitSpec(offers, { ...place, node_id }),
    draft: { ...old.draft, way },
    profile: name
  };
}

/** Choose a zone; without a zone, the node is searched for. */
export function chooseZone(
  zone: string | null,
  way: IWayDraft['way'],
  { chosen, change, changeDraft }: IChoosing
): void {
  changeDraft({ way: zone === null ? 'search' : way === 'search' ? 'now' : way });
  if (zone !== null) {
    change({ zone });
  } else if (termsOf(chosen.spec) === 'flex-start') {
    change(withTerms('on-demand'));
  }
}

export function chooseTerms(
  terms: Provisioning | 'queue',
  way: IWayDraft['way'],
  { change, changeDraft }: IChoosing
): void {
  if (terms === 'queue') {
    changeDraft({ way: 'queue' });
  } else {
    change(withTerms(terms));
    changeDraft({ way: way === 'queue' ? 'now' : way });
  }
}

/** Create, search for or queue the node, and remember the choice and what to open on the node. */
export async function submit(
  props: ICreateFormProps,
  { spec, draft, open }: IChosen
): Promise<void> {
  const { extras, request } = props;
  const zone = wayOf(spec, draft) === 'search' ? null : spec.zone;
  // before the request, because its response may be lost even if the node is created
  extras?.onOpenWhenReady(spec.node_id, zone, open);
  try {
    await requestNode(props, spec, draft);
  } catch (error) {
    if (isRefusal(problemOf(error))) {
      extras?.onOpenWhenReady(spec.node_id, zone, OPEN_NOTHING);
    }
    throw error;
  }
  // a notebook that the request brought, such as that of a lost node, is no choice for later nodes
  const isCarried = open.kind === request?.open?.kind && open.path === request.open.path;
  extras?.onRemember(spec.node_id, choiceOf(spec, draft), isCarried ? null : open);
}

/** Whether nothing was created for certain, because the server itself responded with an error. */
function isRefusal({ code }: IProblem): boolean {
  return code !== 'server_unreachable' && !code.startsWith('http_5');
}

async function requestNode(
  props: ICreateFormProps,
  spec: INodeSpec,
  draft: IWayDraft
): Promise<void> {
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
