/** A name that is not taken: the base, or the base with a number. */
export function freeName(base: string, taken: readonly string[]): string {
  const names = [base, ...taken.map((_, index) => `${base}-${index + 2}`)];
  return names.find(name => !taken.includes(name)) ?? base;
}
