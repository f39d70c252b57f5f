// What draws the text of replies. It is the larger half of the page's code and no part of its
// first paint: it is loaded behind it.

export { MarkdownStream } from './markdown/stream';
