/** Pages of the Google Cloud console; pure. */

const CONSOLE = 'https://console.cloud.google.com';
const TPU_API = 'tpu.googleapis.com';

/** The page where an API is enabled, or a billing account linked; only ever a page of the console. */
export function consoleUrl(page: unknown, project: unknown, service: unknown): string {
  const query = `?project=${encodeURIComponent(typeof project === 'string' ? project : '')}`;
  if (page === 'billing') {
    return `${CONSOLE}/billing/linkedaccount${query}`;
  }
  const api = typeof service === 'string' && service ? service : TPU_API;
  return `${CONSOLE}/apis/library/${encodeURIComponent(api)}${query}`;
}
