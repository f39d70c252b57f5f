// Where a scenario happens: its server, its pages, and who judges.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import net from 'node:net';
import { ask } from './lib.mjs';

/** Gives a scenario settings of its own: config, own (a server for it alone), context (the browser's), wire (between the two, to be cut), waits (it mostly does), alone (it measures). */
export const at = (settings, scenario) => Object.assign(scenario, { settings });

export class Stage {
  #url;
  #browser;
  #servers = new Map(); // by their settings
  #asked = new Map(); // scenes by the key of a question
  upstream = '';

  constructor(url, browser) {
    this.#url = url;
    this.#browser = browser;
  }

  async ask(what, body) {
    const answer = await fetch(`${this.#url}/${what}`, { method: 'POST', body: JSON.stringify(body) });
    assert.ok(answer.ok, `${what}: ${answer.status}`);
    return answer.json();
  }

  async play(scripts, models) {
    this.upstream = await this.ask('upstream', { scripts, models });
  }

  /** Notes who puts a question, and reports whether nobody else does. */
  asking(question, scene) {
    const key = keyOf(question);
    const who = this.#asked.get(key) ?? new Set();
    this.#asked.set(key, who.add(scene));
    return who.size === 1;
  }

  async enter({ config, own, context, wire }) {
    let server = this.#servers.get(config);
    if (!server || own) {
      server = this.#serve(config);
      if (!own) this.#servers.set(config, server);
    }
    return Scene.open(this, this.#browser, await server, context, wire);
  }

  // One login serves every context, like one person's browsers.
  async #serve(config) {
    const server = await this.ask('serve', { config });
    const context = await this.#browser.newContext();
    const secret = decodeURIComponent(new URL(server.link).hash.slice('#launch='.length));
    const answer = await context.request.post(`${server.base}/auth/launch`, { data: { secret } });
    assert.ok(answer.ok(), await answer.text());
    const login = await context.storageState();
    await context.close();
    return { ...server, login };
  }
}

const defaults = { reducedMotion: 'reduce', viewport: { width: 1280, height: 800 } };

/** What one scenario has. */
class Scene {
  complaints = []; // what the browsers report against the page
  #browser;
  #contexts = [];
  #forgiven = [];
  #asked;

  static async open(stage, browser, server, options, wired) {
    const on = new Scene();
    Object.assign(on, { stage, server, base: server.base });
    if (wired) {
      on.wire = await Wire.lay(new URL(server.base).port);
      on.base = on.wire.base;
      // The login's cookie is named after the port.
      const ports = [server, on.wire].map((s) => new URL(s.base).port);
      const login = server.login.cookies.map((c) => ({ ...c, name: c.name.replace(...ports) }));
      on.server = { ...server, login: { cookies: [...server.login.cookies, ...login], origins: [] } };
    }
    on.#browser = browser;
    on.context = await on.visitor(options);
    on.page = await on.tab();
    return on;
  }

  /** Another browser of the same person. */
  async visitor(options) {
    const context = await this.#browser.newContext({ ...defaults, storageState: this.server.login, ...options });
    this.#contexts.push(context);
    context.setDefaultTimeout(30_000);
    context.on('request', (r) => {
      const url = new URL(r.url());
      if (url.protocol.startsWith('http') && url.origin !== this.base) this.#complain(`a request to ${url.origin}`);
    });
    context.on('console', (m) => m.type() === 'error' && this.#complain(`console: ${m.text()}`));
    context.on('weberror', (e) => this.#complain(`error: ${e.error().stack}`));
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI}`));
    });
    return context;
  }

  #complain(what) {
    if (!this.#forgiven.some((f) => f.test(what))) this.complaints.push(what);
  }

  /** Lets the browser report what the scenario brings about. */
  forgive(what) {
    this.#forgiven.push(what);
  }

  /** Lets the browser report that nobody answers. */
  forgiveNetwork() {
    this.forgive(/net::ERR_/);
  }

  /** Another tab of the same browser, at a path of the page. */
  async tab(path) {
    const page = await this.context.newPage();
    if (path) await page.goto(this.base + path);
    return page;
  }

  /** Puts a question to a model of the upstream, in a new session. */
  async ask(model, text, page = this.page) {
    this.#asked = { model, text };
    this.stage.asking(this.#asked, this);
    await ask(page, this.base, `up/${model}`, text);
  }

  /** The requests that the upstream has had for the last question, or another one. */
  async sent({ model, text } = this.#asked) {
    const report = await (await fetch(`${this.stage.upstream}/rehearsal/requests`)).json();
    const key = keyOf({ model, text });
    assert.ok(this.stage.asking({ model, text }, this), 'another scenario puts the same question, so nobody knows whose requests these are');
    return report.requests.filter((r) => r.key === key);
  }

  /** How many they are. */
  async requests(question) {
    return (await this.sent(question)).length;
  }

  /** Calls the API as the person who is signed in, and gives the answer's body. */
  async api(method, path, data) {
    const answer = await this.context.request.fetch(`${this.server.base}/api/v1${path}`, { method, data });
    assert.ok(answer.ok(), `${method} ${path}: ${answer.status()} ${await answer.text()}`);
    return answer.status() === 204 ? null : answer.json();
  }

  /** The session that a page shows, as the server has it. */
  session(page = this.page) {
    return this.api('GET', `/sessions/${idOf(page)}`);
  }

  async attempts(page = this.page) {
    const s = await this.session(page);
    return (await this.api('GET', `/sessions/${s.id}/runs/${s.last_run.id}/attempts`)).attempts;
  }

  async messages(page = this.page) {
    return (await this.api('GET', `/sessions/${idOf(page)}/messages?superseded=true`)).messages;
  }

  /** Runs a verb of the command line beside the server. */
  reprise(...args) {
    return this.stage.ask('reprise', { id: this.server.id, args });
  }

  /** kill -9. */
  kill() {
    this.forgiveNetwork();
    return this.stage.ask('kill', { id: this.server.id });
  }

  /** Starts the server again, at the same address, on what it left. */
  start() {
    return this.stage.ask('start', { id: this.server.id });
  }

  /** What every page shows, for a report. */
  async shown() {
    const pages = this.#contexts.flatMap((c) => c.pages());
    const told = await Promise.all(pages.map((p) => p.locator('body').ariaSnapshot({ timeout: 5_000 }).catch((e) => e.message)));
    return told.map((text, i) => `Page ${i + 1}, ${pages[i].url()}, shows:\n${text}`);
  }

  async leave() {
    await Promise.all(this.#contexts.map((c) => c.close()));
    this.wire?.remove();
  }
}

/** A connection to a server that can be cut: nothing gets through, and what is open breaks. */
class Wire {
  #server;
  #sockets = new Set();
  #whole = true;

  static async lay(port) {
    const wire = new Wire();
    wire.#server = net.createServer((near) => {
      if (!wire.#whole) return near.destroy();
      const far = net.connect(port, '127.0.0.1');
      for (const [socket, other] of [[near, far], [far, near]]) {
        wire.#sockets.add(socket);
        socket.on('error', () => {}); // close follows
        socket.on('close', () => wire.#sockets.delete(socket) && other.destroy());
      }
      near.pipe(far).pipe(near);
    });
    await new Promise((done) => wire.#server.listen(0, '127.0.0.1', done));
    wire.base = `http://127.0.0.1:${wire.#server.address().port}`;
    return wire;
  }

  cut() {
    this.#whole = false;
    for (const s of this.#sockets) s.destroy();
  }

  mend() {
    this.#whole = true;
  }

  remove() {
    this.cut();
    this.#server.close();
  }
}

/** Under which key the upstream counts a question to a model. */
const keyOf = ({ model, text }) => createHash('sha256').update(`${model}\0${text}`).digest('hex').slice(0, 12);

export const idOf = (page) => /\/s\/(ses_\w+)/.exec(page.url())[1];
