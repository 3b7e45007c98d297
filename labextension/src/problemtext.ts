/** A foreign error as text: a sentence, or a record that has one. */
export function errorText(error: unknown): string {
  if (typeof error === 'string') {
    return error;
  }
  const { message, text } = (error ?? {}) as { message?: unknown; text?: unknown };
  const words = message ?? text;
  return typeof words === 'string' ? words : '';
}

/** A record of values, one a line; what is null says nothing. */
export function formatDetail(detail: { readonly [name: string]: unknown }): string {
  return Object.entries(detail)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join('\n');
}
