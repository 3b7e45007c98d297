/** Return the base, or the base with a number, whichever is not taken yet. */
export function unusedName(base: string, taken: readonly string[]): string {
  const names = [base, ...taken.map((_, index) => `${base}-${index + 2}`)];
  return names.find(name => !taken.includes(name)) ?? base;
}
