/** Our icons, drawn in the theme's colours. */

import { LabIcon } from '@jupyterlab/ui-components';
import { StateKind } from './format';

function svg(body: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">${body}</svg>`;
}

/** A chip with its pins: the panel's tab. */
export const tpuIcon = new LabIcon({
  name: 'jupyter-tpu:chip',
  svgstr: svg(
    '<path class="jp-icon3" fill="#616161" fill-rule="evenodd" d="M9 2h1.6v3H9zm4.4 0H15v3h-1.6zM9 19h1.6v3H9zm4.4 0H15v3h-1.6zM2 9h3v1.6H2zm0 4.4h3V15H2zM19 9h3v1.6h-3zm0 4.4h3V15h-3zM7 5h10a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2zm0 1.8a.2.2 0 0 0-.2.2v10c0 .1.1.2.2.2h10a.2.2 0 0 0 .2-.2V7a.2.2 0 0 0-.2-.2zM9 9h2.4v2.4H9zm3.6 0H15v2.4h-2.4zM9 12.6h2.4V15H9zm3.6 0H15V15h-2.4z"/>'
  )
});

const SHAPES: { readonly [kind in StateKind]: string } = {
  ready: '<path fill="currentColor" d="M9.5 16.6 5 12.1l-1.7 1.7 6.2 6.1L21 8.3l-1.7-1.7z"/>',
  working: '<path fill="currentColor" d="M12 3a9 9 0 1 0 9 9h-2.6A6.4 6.4 0 1 1 12 5.6z"/>',
  stopped: '<path fill="currentColor" d="M6 6h12v12H6z"/>',
  lost: '<path fill="currentColor" fill-rule="evenodd" d="M12 3 1.8 20.5h20.4zm1 14.5h-2v-2h2zm0-4h-2v-5h2z"/>',
  unknown:
    '<path fill="currentColor" d="M11 17h2.2v2.4H11zM12 4.5c-2.7 0-4.6 1.7-4.7 4.3h2.4c0-1.4.9-2.2 2.3-2.2 1.3 0 2.2.7 2.2 1.9 0 .9-.5 1.4-1.5 2.1-1.3.9-1.8 1.7-1.7 3.2v1.1h2.2v-.8c0-1 .4-1.4 1.5-2.2 1.2-.8 2-1.8 2-3.4 0-2.5-1.9-4-4.7-4z"/>'
};

/** The time until auto-stop. */
export const clockIcon = new LabIcon({
  name: 'jupyter-tpu:clock',
  svgstr: svg(
    '<path fill="currentColor" fill-rule="evenodd" d="M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zm0 2.2a6.8 6.8 0 1 0 0 13.6 6.8 6.8 0 0 0 0-13.6zM11 7.5h2v4l3 1.8-1 1.7-4-2.4z"/>'
  )
});

function stateIcon(kind: StateKind): LabIcon {
  return new LabIcon({ name: `jupyter-tpu:state-${kind}`, svgstr: svg(SHAPES[kind]) });
}

export const stateIcons: { readonly [kind in StateKind]: LabIcon } = {
  ready: stateIcon('ready'),
  working: stateIcon('working'),
  stopped: stateIcon('stopped'),
  lost: stateIcon('lost'),
  unknown: stateIcon('unknown')
};
