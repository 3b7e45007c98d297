import { newMessagesOnly } from '../restore/duplicates';
import { stream } from './records';

describe('what a request hears', () => {
  it('is each message once, in the order of the record', () => {
    const isNew = newMessagesOnly();
    const heard = [3, 4, 4, 3, 5].map(seq => isNew(stream('r', 'x', seq)));
    expect(heard).toEqual([true, true, false, false, true]);
  });

  it('is all that the server says of its own', () => {
    const isNew = newMessagesOnly();
    expect([stream('r', 'x', 3), stream('r', 'y'), stream('r', 'y')].map(isNew)).toEqual([
      true,
      true,
      true
    ]);
  });
});
