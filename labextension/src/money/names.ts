/** Return the base name, with a number appended if it is already taken. */
export function unusedName(base: string, taken: readonly string[]): string {
  const names = [base, ...taken.map((_, index) => `${base}-${index + 2}`)];
  return names.find(name => !taken.includes(name)) ?? base;
}
