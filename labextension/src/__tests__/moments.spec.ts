import {
  clockTime,
  formatCountdown,
  formatMoment,
  nextMoment,
  onServer,
  setLanguage,
  suggestTime
} from '../money/moments';

/** By the clock of the browser, wherever it stands. */
function at(hours: number, minutes: number): Date {
  return new Date(2026, 10, 22, hours, minutes);
}

describe('a countdown', () => {
  it.each([
    [252, '4:12'],
    [59.2, '1:00'],
    [9, '0:09'],
    [3852, '1:04:12'],
    [-3, '0:00']
  ])('of %s seconds reads %s', (seconds, text) => {
    expect(formatCountdown(seconds)).toBe(text);
  });
});

describe('a moment', () => {
  it('has its date unless it is today', () => {
    const now_s = at(0, 30).getTime() / 1000;
    expect(formatMoment(now_s - 600, now_s)).toMatch(/^\D*12:20\D*$|^\D*0?0:20\D*$/);
    expect(formatMoment(now_s - 3600, now_s)).toMatch(/21.*11:30|21.*23:30/);
  });
});

describe('the time to offer', () => {
  it.each([
    [at(9, 30), '18:00'],
    [at(17, 0), '18:00'],
    [at(17, 1), '19:00'],
    [at(20, 0), '21:00'],
    [at(22, 30), '00:00'],
    [at(2, 0), '03:00']
  ])('at %s is %s', (now, time) => {
    expect(suggestTime(now)).toBe(time);
  });
});

describe('a time of the day', () => {
  it('is that of today until it has passed', () => {
    expect(nextMoment('18:00', at(17, 59))).toEqual(at(18, 0));
    expect(nextMoment('18:00', at(18, 0))).toEqual(new Date(2026, 10, 23, 18, 0));
  });

  it.each(['', '24:00', '7:00', '18:60', 'soon'])('is not %j', time => {
    expect(nextMoment(time, at(12, 0))).toBeNull();
  });

  it('is told by the clock of the server, to the minute', () => {
    const now = at(12, 0);
    const server_s = now.getTime() / 1000;
    const moment_s = at(18, 0).getTime() / 1000;
    expect(onServer(at(18, 0), now.getTime(), server_s - 0.9)).toBe(moment_s);
    expect(onServer(at(18, 0), now.getTime(), server_s + 3600)).toBe(moment_s + 3600);
  });
});

describe('the language of dates', () => {
  afterEach(() => {
    jest.restoreAllMocks();
    setLanguage('en');
  });

  it('is that of the page, in the variant of the browser', () => {
    const at = new Date(2026, 10, 28, 14, 13).getTime() / 1000;
    const browser = jest.spyOn(navigator, 'languages', 'get');
    browser.mockReturnValue(['en-US', 'en']);
    setLanguage('zh_CN');
    expect(clockTime(at)).toBe('14:13');
    expect(formatMoment(at, at - 86_400)).toContain('11月28日');
    browser.mockReturnValue(['de-DE', 'en-GB']);
    setLanguage('en');
    expect(clockTime(at)).toBe('14:13');
    expect(formatMoment(at, at - 86_400)).toContain('28 Nov');
  });

  it("is the browser's where the page does not know its own", () => {
    setLanguage('zh_CN');
    setLanguage(undefined);
    expect(formatMoment(1_795_000_000, 1_794_900_000)).not.toContain('月');
  });
});
