/** Scroll an element to the middle, where no sticky header covers it; DOMs without a layout cannot scroll. */
export function scrollToCenter(element: Partial<Element> | null | undefined): void {
  element?.scrollIntoView?.({ block: 'center', inline: 'nearest' });
}
