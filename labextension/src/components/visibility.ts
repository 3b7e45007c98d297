import { RefObject, useEffect, useState } from 'react';

/** What is about to be scrolled to counts as in sight. */
const MARGIN = '200px 0px';

/** Whether an element of the panel can be seen; `atFirst` until the browser has told. */
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
