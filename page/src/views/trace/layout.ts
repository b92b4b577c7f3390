// The rows of a waterfall: a tree of spans, what is folded away, and what a folded row still shows.

import type { Trace, TraceSpan } from "../../api";

export interface Node {
  span: TraceSpan;
  parent: Node | null;
  children: Node[];
  depth: number;
  /** Seconds in which none of its children ran. */
  self_s: number;
  critical: boolean;
  /** Seconds by which its clock was moved. */
  moved_s: number | null;
  below: number;
  errorsBelow: number;
  /** Its parent is named, but is not in the trace. */
  orphan: boolean;
}

/** More spans than this start folded, but for what is critical or failed. */
const UNFOLDED = 400;

export function tree(trace: Trace): Node[] {
  const critical = new Set(trace.critical);
  const moved = new Map(trace.skewed.map(({ span, by_s }) => [span, by_s]));
  const nodes = new Map<string, Node>();
  for (const span of trace.spans) {
    nodes.set(span.span, {
      span,
      parent: null,
      children: [],
      depth: 0,
      self_s: 0,
      critical: critical.has(span.span),
      moved_s: moved.get(span.span) ?? null,
      below: 0,
      errorsBelow: 0,
      orphan: false,
    });
  }
  const roots: Node[] = [];
  for (const node of nodes.values()) {
    const parent = node.span.parent === null ? undefined : nodes.get(node.span.parent);
    if (parent && !reaches(parent, node)) {
      node.parent = parent;
      parent.children.push(node);
    } else {
      node.orphan = node.span.parent !== null;
      roots.push(node);
    }
  }
  const order = inOrder(roots);
  for (const node of order) node.depth = node.parent ? node.parent.depth + 1 : 0;
  for (const node of order.reverse()) {
    node.self_s = (node.span.end - node.span.start - covered(node)) / 1000;
    if (!node.parent) continue;
    node.parent.below += 1 + node.below;
    node.parent.errorsBelow += (node.span.error ? 1 : 0) + node.errorsBelow;
  }
  return roots;
}

// Broken data can name a child as its own ancestor; such a pair would never end.
function reaches(from: Node, wanted: Node): boolean {
  for (let node: Node | null = from; node; node = node.parent) if (node === wanted) return true;
  return false;
}

/** Parents before children, siblings by start; also sorts the children. Without recursion: traces can be deep. */
function inOrder(roots: Node[]): Node[] {
  const byStart = (a: Node, b: Node): number => a.span.start - b.span.start || a.span.end - b.span.end;
  const result: Node[] = [];
  const open = roots.sort(byStart).slice().reverse();
  for (let node = open.pop(); node; node = open.pop()) {
    result.push(node);
    node.children.sort(byStart);
    for (let i = node.children.length - 1; i >= 0; i--) open.push(node.children[i]!);
  }
  return result;
}

/** Milliseconds of the node's own time in which any child ran. */
function covered(node: Node): number {
  let [total, until] = [0, node.span.start];
  for (const { span } of node.children) {
    const [start, end] = [Math.max(span.start, until), Math.min(span.end, node.span.end)];
    if (end > start) [total, until] = [total + end - start, end];
  }
  return total;
}

/** Rows in order, without what lies below a folded one. */
export function rows(roots: readonly Node[], folded: ReadonlySet<string>): Node[] {
  const result: Node[] = [];
  const open = [...roots].reverse();
  for (let node = open.pop(); node; node = open.pop()) {
    result.push(node);
    if (folded.has(node.span.span)) continue;
    for (let i = node.children.length - 1; i >= 0; i--) open.push(node.children[i]!);
  }
  return result;
}

export function foldedAtFirst(roots: Node[], total: number): Set<string> {
  const folded = new Set<string>();
  if (total <= UNFOLDED) return folded;
  for (const node of rows(roots, folded)) {
    const keep = node.depth === 0 || node.critical || node.errorsBelow > 0;
    if (node.children.length && !keep) folded.add(node.span.span);
  }
  return folded;
}

/** Where anything below ran, as few intervals as tell it: what a folded row shows of its children. */
export function part(node: Node, least: number): [number, number][] {
  const spans = rows(node.children, new Set()).map(({ span }): [number, number] => [span.start, span.end]);
  spans.sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [start, end] of spans) {
    const last = merged[merged.length - 1];
    if (last && start <= last[1] + least) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}

/** Spans whose name, role, host, process or attributes hold the text; `error` and `critical` are words of their own. */
export function search(roots: readonly Node[], text: string): Node[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return rows(roots, new Set()).filter((node) => words.every((word) => holds(node, word)));
}

function holds(node: Node, word: string): boolean {
  const { span } = node;
  if (word === "is:error") return span.error;
  if (word === "is:critical") return node.critical;
  const rank = /^rank:(\d+)$/.exec(word);
  if (rank) return span.rank === Number(rank[1]);
  const texts = [span.span, span.name, span.role, span.host, span.process, span.message];
  if (texts.some((text) => text?.toLowerCase().includes(word))) return true;
  return Object.entries(span.attributes).some(([key, value]) => `${key}=${shown(value)}`.toLowerCase().includes(word));
}

/** An attribute's value as text. */
export function shown(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "—");
}

/** Everything above a node, so that it can be unfolded into view. */
export function above(node: Node): string[] {
  const ids: string[] = [];
  for (let up = node.parent; up; up = up.parent) ids.push(up.span.span);
  return ids;
}
