/** Scroll an element to the middle of the view, where no sticky header covers it. In jsdom, do nothing. */
export function scrollToCenter(element: Partial<Element> | null | undefined): void {
  element?.scrollIntoView?.({ block: 'center', inline: 'nearest' });
}
