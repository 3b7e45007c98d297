/** Scroll an element to the middle, where no sticky header covers it. jsdom has no `scrollIntoView`. */
export function scrollToCenter(element: Partial<Element> | null | undefined): void {
  element?.scrollIntoView?.({ block: 'center', inline: 'nearest' });
}
