import { MessageLog } from '../restore/log';
import { outputOf } from '../restore/records';
import { message, stream } from './records';

const CLEAR = (wait: boolean): ReturnType<typeof message> => message('r', 'clear_output', { wait });

function shown(id: string, words: string, type = 'display_data'): ReturnType<typeof message> {
  const data = { 'text/plain': words };
  return message('r', type, { data, metadata: {}, transient: { display_id: id } });
}

function words(log: MessageLog): unknown[] {
  return log.messages.map(one => {
    const { output_type, text, data } = outputOf(one);
    return text ?? (data as { 'text/plain'?: string } | undefined)?.['text/plain'] ?? output_type;
  });
}

describe('the log of a run', () => {
  it('joins what is printed to one stream, and keeps streams apart', () => {
    const error = message('r', 'stream', { name: 'stderr', text: 'no' });
    const log = new MessageLog([stream('r', 'a'), stream('r', 'b'), error, stream('r', 'c')]);
    expect(words(log)).toEqual(['ab', 'no', 'c']);
  });

  it('keeps only the newest data of a display', () => {
    const log = new MessageLog([shown('d', '0'), stream('r', 'x')]);
    log.add(shown('d', '1', 'update_display_data'));
    log.add(shown('other', '2', 'update_display_data'));
    expect(words(log)).toEqual(['1', 'x']);
  });

  it('forgets what is cleared, at once or with the next output', () => {
    const log = new MessageLog([stream('r', 'old')]);
    expect(log.add(CLEAR(true))).toBe(false);
    expect(words(log)).toEqual(['old', 'clear_output']);
    expect(log.add(stream('r', 'new'))).toBe(true);
    expect(words(log)).toEqual(['new']);
    expect(log.add(CLEAR(false))).toBe(true);
    expect(words(log)).toEqual([]);
  });

  it('keeps no message that shows nothing', () => {
    const log = new MessageLog([message('r', 'status', { execution_state: 'busy' })]);
    expect(log.messages).toEqual([]);
  });
});
