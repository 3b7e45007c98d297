import { RefObject, useEffect, useState } from 'react';

/** What is about to be scrolled into view counts as visible. */
const MARGIN = '200px 0px';

/** Whether an element of the panel is visible; `atFirst` until the browser has reported it. */
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
