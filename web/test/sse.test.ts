import { expect, test } from 'vitest';
import { frameParser } from '../src/sse';

const stream = ': alive\n\nid: i.1\ndata: {"a":1}\n\nid: i.2\r\ndata: one\r\ndata: two\r\n\r\ndata:  spaced\rdata:x\r\rdata\n\nevent: e\nid: i.3\n\ndata: not ended';
const frames = [
  { id: 'i.1', data: '{"a":1}' },
  { id: 'i.2', data: 'one\ntwo' },
  { id: 'i.2', data: ' spaced\nx' },
  { id: 'i.2', data: '' },
];

test('frames are the same wherever the stream is cut', () => {
  for (let size = 1; size <= stream.length; size++) {
    const parse = frameParser();
    const got = [];
    for (let at = 0; at < stream.length; at += size) got.push(...parse(stream.slice(at, at + size)));
    expect(got, `chunks of ${size}`).toEqual(frames);
  }
});
