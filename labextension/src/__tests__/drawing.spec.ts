import { plotter } from '../chart/drawing';

const mockRedraw = jest.fn();

// jsdom has no canvas
jest.mock('uplot', () => ({
  __esModule: true,
  default: class {
    redraw = mockRedraw;
    destroy(): void {
      // nothing was drawn
    }
  }
}));

const plot = plotter<number>({
  options: () => ({ series: [] }),
  fill: () => undefined,
  empty: [[]]
});

async function changeTheme(name: string): Promise<void> {
  document.body.dataset.jpThemeName = name;
  await Promise.resolve(); // observers of the page are called after the task
}

describe('a chart', () => {
  beforeEach(() => mockRedraw.mockClear());

  it('has the colours of a changed theme at once, not with the next data', async () => {
    const chart = await plot(document.createElement('div'));
    chart.show(1);

    await changeTheme('JupyterLab Dark');

    expect(mockRedraw).toHaveBeenCalledTimes(1);
    chart.dispose();
    await changeTheme('JupyterLab Light');
    expect(mockRedraw).toHaveBeenCalledTimes(1);
  });
});
