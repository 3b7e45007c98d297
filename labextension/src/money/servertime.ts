import { useNow } from '../components/now';
import { serverNow } from './model';
import { IPart } from './tokens';

/** The server's time in seconds, as it goes on; the browser's where it was not told. */
export function useServerNow({ dated }: IPart<object>): number {
  const now_ms = useNow();
  return dated ? serverNow(dated, now_ms) : now_ms / 1000;
}
