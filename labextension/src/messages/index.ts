/**
 * All texts of the user interface, one file for each screen: to be read, reviewed and translated in one sitting.
 *
 * A message is a function of its arguments and, last, the translation bundle. No other module calls the bundle, and
 * modules import the file of their screen, not this index.
 */

export * as autostop from './autostop';
export * as capacity from './capacity';
export * as cleanup from './cleanup';
export * as commands from './commands';
export * as common from './common';
export * as create from './create';
export * as grants from './grants';
export * as load from './load';
export * as nodeend from './nodeend';
export * as notebook from './notebook';
export * as panel from './panel';
export * as problems from './problems';
export * as quota from './quota';
export * as replay from './replay';
export * as setup from './setup';
export * as simulator from './simulator';
export * as spend from './spend';
export * as surfaces from './surfaces';
export * as terminals from './terminals';
export * as units from './units';
