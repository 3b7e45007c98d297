import { IError } from '../api.generated';
import { formatMoment } from '../money/moments';
import { problemOf, ServerExtensionMissing, TpuClient } from '../request';
import { intent, list, STOCKOUT, translations } from './fixtures';
import { reply, Server } from './server';

describe('the client', () => {
  let server: Server;
  let client: TpuClient;

  beforeEach(() => {
    server = new Server();
    client = new TpuClient(server.settings);
  });

  it('asks under the base URL and sends what to create', async () => {
    server.answers['POST nodes'] = () => reply({ intent_id: 'i1' }, 202);
    const spec = {
      node_id: 'a',
      zone: 'us-central1-a',
      accelerator_type: 'v5litepod-8',
      runtime_version: 'v2-alpha-tpuv5-lite',
      spot: true
    };
    expect(await client.createNode(spec)).toEqual({ intent_id: 'i1' });
    expect(server.asked[0].body).toEqual(spec);
  });

  it('escapes names in routes', async () => {
    const route = 'nodes/z%2F..%2Fx/a%3Fb%23c';
    server.answers[`DELETE ${route}`] = () => reply({}, 202);
    await client.deleteNode({ zone: 'z/../x', node_id: 'a?b#c' });
    expect(server.asked[0].route).toBe(route);
  });

  it('dates a list by the clock of the server', async () => {
    const headers = { Date: new Date(1_040_000).toUTCString() };
    server.answers['GET nodes'] = () => reply(list({ as_of: 1000 }), 200, headers);
    expect((await client.nodes()).age_s).toBe(40);
  });

  it('gives a list that was never had no age', async () => {
    server.answers['GET nodes'] = () => reply({ ...list(), as_of: null });
    expect((await client.nodes()).age_s).toBeNull();
  });

  describe('in another language', () => {
    const CHINESE = {
      '{zone} has no free {accelerator_type} now.': '{zone} 目前没有空闲的 {accelerator_type}。',
      'Nothing was created.': '没有创建任何资源。'
    };
    const message = 'us-central1-a has no free v5litepod-8 now.';
    const templates = { message: '{zone} has no free {accelerator_type} now.' };

    async function translatedMessage(values: IError['arguments']): Promise<string> {
      const chinese = new TpuClient(server.settings, translations(CHINESE));
      const error = { ...STOCKOUT, message, templates, arguments: values };
      server.answers['GET nodes'] = () => reply(list({ intents: [intent('a', { error })] }));
      return (await chinese.nodes()).intents[0].error?.message ?? '';
    }

    it('translates errors wherever they stand in an answer', async () => {
      const values = { zone: 'us-central1-a', accelerator_type: 'v5litepod-8' };
      expect(await translatedMessage(values)).toBe('us-central1-a 目前没有空闲的 v5litepod-8。');
    });

    it('translates a text in a text to any depth', async () => {
      const chinese = new TpuClient(
        server.settings,
        translations({
          'Stopped: {cause}': '已停止：{cause}',
          '{node} is idle': '{node} 空闲'
        })
      );
      const why = { template: '{node} is idle', arguments: { node: 'n' } };
      const error = {
        ...STOCKOUT,
        message: 'Stopped: n is idle (5)',
        templates: { message: 'Stopped: {cause}' },
        arguments: { cause: 'n is idle (5)' },
        texts: {
          cause: {
            template: '{why} ({when})',
            arguments: { why: 'n is idle', when: 5 },
            texts: { why }
          }
        }
      };
      server.answers['GET offers'] = () => reply({ message: '', error }, 503);
      const thrown: unknown = await chinese.offers().catch(e => e as unknown);
      expect(problemOf(thrown).message).toBe('已停止：n 空闲 (5)');
      // buttons and advice show values too
      expect(problemOf(thrown).arguments.cause).toBe('n 空闲 (5)');
    });

    it('shows the times of a reason as all other times of the page', async () => {
      const chinese = new TpuClient(
        server.settings,
        translations({ 'Its session ended at {time}.': '会话于 {time} 结束。' })
      );
      const at = Date.UTC(2024, 4, 6, 7, 8) / 1000;
      const reason = {
        reason: 'Its session ended at 2024-05-06 07:08.',
        templates: { reason: 'Its session ended at {time}.' },
        arguments: { time: '2024-05-06 07:08' },
        times: { time: at }
      };
      server.answers['GET audit'] = () => reply({ entries: [reason] });
      const shown = formatMoment(at, Date.now() / 1000);
      expect(await client.request('audit')).toMatchObject({
        entries: [{ reason: `Its session ended at ${shown}.` }]
      });
      expect(await chinese.request('audit')).toMatchObject({
        entries: [{ reason: `会话于 ${shown} 结束。` }]
      });
    });

    it('translates the limit that a node has reached', async () => {
      const chinese = new TpuClient(server.settings, translations({ '{hours} h': '{hours} 小时' }));
      const end = { detail: '4 h', templates: { detail: '{hours} h' }, arguments: { hours: 4 } };
      // an earlier version recorded the other
      server.answers['GET kernels/k/replay'] = () => reply({ end, lost_end: { detail: '1 h' } });
      expect(await chinese.request('kernels/k/replay')).toMatchObject({
        end: { detail: '4 小时' },
        lost_end: { detail: '1 h' }
      });
    });

    it('shows the name of a value that is missing', async () => {
      const values = { zone: 'us-central1-a' };
      expect(await translatedMessage(values)).toBe(
        'us-central1-a 目前没有空闲的 {accelerator_type}。'
      );
    });

    it('translates an error that is thrown, and leaves unknown texts in English', async () => {
      const chinese = new TpuClient(server.settings, translations(CHINESE));
      const error = { ...STOCKOUT, exists: 'Nothing was created.', hint: '%%tpu_time is new.' };
      server.answers['GET offers'] = () => reply({ message: '', error }, 503);
      const thrown: unknown = await chinese.offers().catch(e => e as unknown);
      expect(problemOf(thrown).exists).toBe('没有创建任何资源。');
      expect(problemOf(thrown).hint).toBe('%%tpu_time is new.');
    });
  });

  it('throws what the server says, with all its parts', async () => {
    server.answers['POST nodes/z/a/stop'] = () =>
      reply({ message: 'all in one', reason: 'out_of_capacity', error: STOCKOUT }, 503);
    const error: unknown = await client
      .stopNode({ zone: 'z', node_id: 'a' })
      .catch(e => e as unknown);
    expect(problemOf(error)).toEqual(STOCKOUT);
  });

  it('throws something readable when the answer is not ours', async () => {
    server.answers['GET offers'] = () =>
      new Response('<h1>Bad gateway</h1>', { status: 502, statusText: 'Bad Gateway' });
    const problem = problemOf(await client.offers().catch(e => e as unknown));
    expect(problem).toMatchObject({ code: 'http_502', message: 'Bad Gateway' });
    expect(problem.raw).toContain('<h1>');
  });

  it('knows when the server extension is missing', async () => {
    await expect(client.status()).rejects.toBeInstanceOf(ServerExtensionMissing);
  });

  it('does not take a refusal for a missing server half', async () => {
    server.answers['GET status'] = () => reply({ message: 'Forbidden' }, 403);
    const error: unknown = await client.status().catch(e => e as unknown);
    expect(error).not.toBeInstanceOf(ServerExtensionMissing);
    expect(problemOf(error).code).toBe('http_403');
  });

  it('knows when there is no server', async () => {
    server.answers['GET nodes'] = () => {
      throw new TypeError('Failed to fetch');
    };
    const problem = problemOf(await client.nodes().catch(e => e as unknown));
    expect(problem.code).toBe('server_unreachable');
  });
});
