/** The text of an error: a string, or a record with a message. */
export function errorText(error: unknown): string {
  if (typeof error === 'string') {
    return error;
  }
  const { message, text } = (error ?? {}) as { message?: unknown; text?: unknown };
  const words = message ?? text;
  return typeof words === 'string' ? words : '';
}

/** A record as lines of `name: value`, without nulls. */
export function formatDetail(detail: { readonly [name: string]: unknown }): string {
  return Object.entries(detail)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join('\n');
}
