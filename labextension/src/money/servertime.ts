import { useNow } from '../components/now';
import { serverNow } from './model';
import { IPart } from './tokens';

/** The server's time in seconds, updated each second; the browser's time until the server's is known. */
export function useServerNow({ dated }: IPart<object>): number {
  const now_ms = useNow();
  return dated ? serverNow(dated, now_ms) : now_ms / 1000;
}
