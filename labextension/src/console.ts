/** Pages of the Google Cloud console; pure. */

const CONSOLE = 'https://console.cloud.google.com';
const TPU_API = 'tpu.googleapis.com';

/** Return the URL of the console's page for enabling an API or linking a billing account; never any other page. */
export function consoleUrl(page: unknown, project: unknown, service: unknown): string {
  const query = `?project=${encodeURIComponent(typeof project === 'string' ? project : '')}`;
  if (page === 'billing') {
    return `${CONSOLE}/billing/linkedaccount${query}`;
  }
  const api = typeof service === 'string' && service ? service : TPU_API;
  return `${CONSOLE}/apis/library/${encodeURIComponent(api)}${query}`;
}
