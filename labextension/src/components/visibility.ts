import { RefObject, useEffect, useState } from 'react';

/** Margin within which an element counts as visible, because it may soon be scrolled into view. */
const MARGIN = '200px 0px';

/** A hook that returns whether an element is visible, or `atFirst` until the browser has reported it. */
export function useIsVisible(element: RefObject<HTMLElement>, atFirst: boolean): boolean {
  const [isVisible, setVisible] = useState(atFirst);
  useEffect(() => {
    if (!element.current) {
      return;
    }
    const observer = new IntersectionObserver(
      entries => setVisible(entries[entries.length - 1].isIntersecting),
      { root: element.current.closest('.jp-tpu-Panel'), rootMargin: MARGIN }
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return isVisible;
}
