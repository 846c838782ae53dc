import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { READ_BY_SCRIPTS, VARIABLES } from '../../services/core/runtime/variables.ts';
import { COUNTERS, GAUGES, HISTOGRAMS, PROCESS_GAUGES } from '../../services/core/telemetry/metrics.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
}

interface Service {
  readonly command: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, unknown>>;
}

interface Alerts {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly first: string };
}

const { services } = parse(read('deploy/compose.yaml'), { merge: true }) as Compose;
const ours = Object.entries(services).filter(([, { command }]) => command[0]?.endsWith('.ts') === true);

describe('deploy/compose.yaml', () => {
  it('starts programs that there are, of each service one', () => {
    for (const [name, { command }] of ours) assert.ok(existsSync(join(ROOT, command[0]!)), name);
    assert.deepEqual(ours.map(([name]) => name).sort(), ['api', 'dispatcher', 'reaper', 'schema']);
  });

  it('sets variables that there are, to values that they take', () => {
    const known = new Map(Object.values(VARIABLES).map(({ name, kind }) => [name as string, kind]));
    for (const [service, { environment = {} }] of ours) {
      for (const [name, text] of Object.entries(environment)) {
        const kind = known.get(name);
        if (kind === undefined) assert.match(name, READ_BY_SCRIPTS, service);
        else assert.notEqual(kind.parse(text), undefined, `${service}: ${name}=${text}`);
      }
    }
  });

  it('waits for services that there are', () => {
    for (const [name, { depends_on: others = {} }] of Object.entries(services)) {
      for (const other of Object.keys(others)) assert.ok(other in services, `${name} waits for ${other}`);
    }
  });
});

describe('deploy/Dockerfile', () => {
  it('copies what there is, and the modules run on the Node it names', () => {
    const dockerfile = read('deploy/Dockerfile');
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, from = '']) => from.split(' '));
    assert.ok(copied.includes('services') && copied.includes('package-lock.json'));
    for (const path of copied) assert.ok(existsSync(join(ROOT, path)), path);
    const { engines } = JSON.parse(read('package.json')) as { readonly engines: { readonly node: string } };
    const [, major = ''] = /^FROM node:(\d+)/m.exec(dockerfile) ?? [];
    assert.ok(engines.node.includes(major), `${engines.node} and ${major}`);
  });
});

describe('deploy/alerts.yaml', () => {
  const metrics = new Set(Object.keys({ ...COUNTERS, ...GAUGES, ...HISTOGRAMS, ...PROCESS_GAUGES }));
  const rules = (parse(read('deploy/alerts.yaml')) as Alerts).groups.flatMap((group) => group.rules);

  it('has rules that each say how urgent they are and what to do first', () => {
    assert.ok(rules.length >= 10);
    for (const { alert, labels, annotations } of rules) {
      assert.match(labels.severity, /^(page|ticket)$/, alert);
      assert.ok(annotations.summary.length > 0 && annotations.first.length > 0, alert);
    }
  });

  it('asks for metrics that there are', () => {
    for (const { alert, expr } of rules) {
      const names = [...expr.matchAll(/punctual_\w+/g)].map(([name]) => name.replace(/_(bucket|count|sum)$/, ''));
      assert.ok(names.length > 0, alert);
      for (const name of names) assert.ok(metrics.has(name), `${alert} asks for ${name}`);
    }
  });
});
